"""The hosts that a call names. Pure.

A host is what stands where one must stand: in a URL, among the words of a program that speaks to the network, in
`/dev/tcp/`. Numbers and dotted words elsewhere are versions, prices and files, and are left alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from infra.cell.policy.commands import Script
from infra.shared.network import address_of, as_resolved

_PROGRAMS = frozenset(
    (
        *("aria2c", "curl", "ftp", "lftp", "minifram-web", "wget", "nc", "ncat", "netcat", "openssl", "sftp", "socat"),
        *("ssh", "telnet", "dig", "mtr", "nmap", "nslookup", "ping", "ping6", "tracepath", "traceroute", "mongosh"),
        *("mysql", "psql", "redis-cli"),
    )
)
"""Each word after one of these may name a host."""
_REMOTE_PATHS = frozenset(("git", "scp", "rsync"))
"""After one of these only `host:path` does: other words are files, branches and tags."""
_IN_URL = re.compile(
    r"(?:://|/dev/(?:tcp|udp)/)(?:[^\s/?#]{0,1000}@)?(\[[^\]\s]*\]|[^\s/?#:@\[\]\"'`<>|\\;,(){}&=$!*^+]+)"
)
_REMOTE = re.compile(r"\A(?:[^\s/:@]*@)?(\[[^\]\s]*\]|[^\s/:@\[\]]+):")
_DOTTED = re.compile(r"[\w-]+(\.[\w-]+)+\.?")


def hosts_in(arguments: Any, script: Script | None = None) -> frozenset[str]:
    """The hosts in all strings of `arguments`, however deep, and in the words of the command that one of them is; as
    they would be looked up: small letters, no dot at the end."""
    commands = script.commands if script else ()
    found = {host for text in _strings([arguments, commands]) for host in _IN_URL.findall(text)}
    found.update(host for command in commands for host in _of_program(command.words))
    return frozenset(as_resolved(host).strip("[]").removesuffix(".") for host in found) - {""}


def _strings(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            left += each


def _of_program(words: tuple[str, ...]) -> Iterator[str]:
    """The hosts among the words behind a program of the network, wherever that stands: others may start it."""
    names = [word.rpartition("/")[2] for word in words]
    first = next((at for at, name in enumerate(names) if name in _PROGRAMS or name in _REMOTE_PATHS), len(words))
    for word in words[first + 1 :]:
        if names[first] in _REMOTE_PATHS:
            yield from _REMOTE.findall(word)[:1]
        else:
            authority = re.split(r"[/?#]", word.partition("=")[2] if word.startswith("-") else word, maxsplit=1)[0]
            for piece in (authority, *re.findall(r"\[[^\[\]]*\]|[^:,=@\[\]]+", authority)):
                if _DOTTED.fullmatch(piece) or (":" in piece and address_of(piece)):
                    yield piece
