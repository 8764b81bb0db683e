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
_URL = re.compile(
    r"(?::[/\\]{2,}|(?<![a-z0-9])(?:https?|ftp|wss?):[/\\](?![/\\])|/dev/(?:tcp|udp)/)(?P<rest>[^\s/?#]{0,2000})",
    re.IGNORECASE,
)
_CUT = re.compile(r"[\"'`<>|\\;,(){}]")
_HOST = re.compile(r"\[[^\]]*\]?|[^\s:\[\]\"'`<>|\\;,(){}&=@$!*^+]+")
_LEAST_NUMBER = 1 << 24
"""A single number below that is a port, a count or a size: as an address it would be in 0.0.0.0/8, which is no host."""


def hosts_in(arguments: Any, script: Script | None = None) -> frozenset[str]:
    """The hosts in all strings of `arguments`, however deep, and in the words of the command that one of them is; as
    they would be looked up: small letters, no dot at the end."""
    commands, redirections = (script.commands, script.redirections) if script else ((), ())
    found = {host for text in _strings([arguments, commands, redirections]) for host in _of_text(text)}
    address = arguments.get("url") if isinstance(arguments, dict) else None
    for words in (*commands, *([("minifram-web", address)] if isinstance(address, str) else [])):
        found.update(_of_program(words))
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


def _of_text(text: str) -> Iterator[str]:
    for match in (match for spelling in {text, as_resolved(text)} for match in _URL.finditer(spelling)):
        # Readers do not agree where the name of the user ends, nor on backslashes: each reading counts.
        for authority in {match["rest"], _CUT.split(match["rest"], maxsplit=1)[0]}:
            if host := _HOST.match(authority.rpartition("@")[2]):
                yield host[0]


def _of_program(words: tuple[str, ...]) -> Iterator[str]:
    """The hosts among the words behind a program of the network, wherever that stands: others may start it."""
    names = [word.rpartition("/")[2] for word in words]
    first = next((at for at, name in enumerate(names) if name in _PROGRAMS or name in _REMOTE_PATHS), len(words))
    for word in words[first + 1 :]:
        if names[first] in _REMOTE_PATHS:
            host = word.rpartition("]")[0] + "]" if "[" in word else word.partition(":")[0]
            pieces = [host.rpartition("@")[2]] if ":" in word and "/" not in word.partition(":")[0] else []
        else:
            authority = re.split(r"[/?#]", word.partition("=")[2] if word.startswith("-") else word, maxsplit=1)[0]
            pieces = [authority, *re.split(r"[:,=@\[\]]", authority), *re.findall(r"\[([^\[\]]*)\]", word)]
        yield from (piece.strip() for piece in pieces if _may_be_host(piece.strip()))


def _may_be_host(piece: str) -> bool:
    address = address_of(piece)
    if address is not None:
        return "." in as_resolved(piece) or int(address) >= _LEAST_NUMBER
    return bool(re.fullmatch(r"[\w-]+(\.[\w-]+)+\.?", as_resolved(piece)))
