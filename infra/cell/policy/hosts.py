"""The hosts that the arguments of a call name, in every string however deep. Pure.

A host is what stands where one must stand: behind `//` in a URL, among the words of a program that speaks to the
network, in `/dev/tcp/`. Numbers and dotted words elsewhere are versions, prices and files, and are left alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from infra.cell.policy.commands import Script
from infra.shared.addresses import plain, readings

MAX_CHARS = 1 << 20
"""Of all strings of a call together; the rest is not looked through."""
MAX_DEPTH = 64

_WEB = "minifram-web"
_FETCHING = ("aria2c", "curl", "ftp", "lftp", _WEB, "wget")
_TALKING = ("nc", "ncat", "netcat", "openssl", "sftp", "socat", "ssh", "telnet")
_PROBING = ("dig", "mtr", "nmap", "nslookup", "ping", "ping6", "tracepath", "traceroute")
_ASKING = ("mongosh", "mysql", "psql", "redis-cli")
PROGRAMS = frozenset((*_FETCHING, *_TALKING, *_PROBING, *_ASKING))
"""Each word after one of these may name a host."""
REMOTE_PATHS = frozenset(("git", "scp", "rsync"))
"""After one of these only `host:path` does: other words are files, branches and tags."""
_URL = re.compile(
    r"(?::[/\\]{2,}|(?<![a-z0-9])(?:https?|ftp|wss?):[/\\](?![/\\]))(?P<rest>[^\s/?#]{0,2000})", re.IGNORECASE
)
_CUT = re.compile(r"[\"'`<>|\\;,(){}]")
_HOST = re.compile(r"\[[^\]]*\]?|[^\s:\[\]\"'`<>|\\;,(){}&=@$!*^+]+")
_DEVICE = re.compile(r"/dev/(?:tcp|udp)/(?P<host>[^\s/]+)")
_LEAST_NUMBER = 1 << 24
"""A single number below that is a port, a count or a size: as an address it would be in 0.0.0.0/8, which is no host."""


class Hosts(NamedTuple):
    names: frozenset[str]
    """As they would be looked up: small letters, no dot at the end."""
    whole: bool
    """False when there was more than is looked through."""


def hosts_in(arguments: Any, script: Script | None = None) -> Hosts:
    """The hosts in all strings of `arguments`, and in the words of the command that one of them is."""
    strings, whole = _strings(arguments)
    found: set[str] = set()
    for text in strings:
        found.update(_of_text(text))
    address = arguments.get("url") if isinstance(arguments, dict) else None
    if isinstance(address, str):
        found.update(_of_program((_WEB, address)))
    for words in script.commands if script else ():
        for word in words:
            found.update(_of_text(word))
        found.update(_of_program(words))
    for redirections in script.redirections if script else ():
        for word in redirections:
            found.update(_of_text(word))
    names = {plain(host).strip("[]").removesuffix(".") for host in found}
    return Hosts(frozenset(name for name in names if name), whole)


def _strings(value: Any) -> tuple[list[str], bool]:
    found: list[str] = []
    left, chars = [(value, 0)], 0
    while left:
        each, depth = left.pop()
        if isinstance(each, str):
            chars += len(each)
            if chars > MAX_CHARS:
                return found, False
            found.append(each)
        elif isinstance(each, dict | list | tuple):
            if depth == MAX_DEPTH:
                return found, False
            inner = [*each.keys(), *each.values()] if isinstance(each, dict) else each
            left += [(one, depth + 1) for one in inner]
    return found, True


def _of_text(text: str) -> Iterator[str]:
    for spelling in {text, plain(text)} if ":" in text or "\uff1a" in text or "%" in text or "/" in text else ():
        for match in _URL.finditer(spelling):
            rest = match["rest"]
            # Readers do not agree where the name of the user ends, nor on backslashes: each reading counts.
            for authority in {rest, _CUT.split(rest, maxsplit=1)[0]}:
                host = _HOST.match(authority.rpartition("@")[2])
                if host:
                    yield host[0]
        for match in _DEVICE.finditer(spelling):
            yield match["host"]


def _of_program(words: tuple[str, ...]) -> Iterator[str]:
    """The hosts among the words behind a program of the network, wherever that stands: others may start it."""
    names = [word.rpartition("/")[2] for word in words]
    first = next((at for at, name in enumerate(names) if name in PROGRAMS or name in REMOTE_PATHS), len(words))
    for word in words[first + 1 :]:
        if word.startswith("-"):
            word = word.partition("=")[2]
        if names[first] in REMOTE_PATHS:
            host = word.rpartition("]")[0] + "]" if "[" in word else word.partition(":")[0]
            pieces = [host.rpartition("@")[2]] if ":" in word and "/" not in word.partition(":")[0] else []
        else:
            authority = re.split(r"[/?#]", word, maxsplit=1)[0]
            pieces = [authority, *re.split(r"[:,=@\[\]]", authority), *re.findall(r"\[([^\[\]]*)\]", word)]
        yield from (piece.strip() for piece in pieces if _may_be_host(piece.strip()))


def _may_be_host(piece: str) -> bool:
    addresses = readings(piece)
    if addresses:
        return "." in plain(piece) or any(int(address) >= _LEAST_NUMBER for address in addresses)
    return bool(re.fullmatch(r"[\w-]+(\.[\w-]+)+\.?", plain(piece)))
