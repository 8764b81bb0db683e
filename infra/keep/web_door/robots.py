"""What a site asks robots to leave alone (RFC 9309): its robots.txt, read for one agent, kept for some minutes."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import unquote

from infra.keep.web_door.connection import AGENT
from infra.keep.web_door.refusal import WebRefusal, denied, unavailable
from infra.keep.web_door.target import Target

KEPT_SECONDS = 600.0
MOST_SITES = 200
MOST_BYTES = 512 * 1024
"""RFC 9309 2.5 asks for 500 KiB at least."""
MOST_RULES = 1000
MOST_KEPT_BYTES = 16 << 20
"""In memory, of all sites' rules."""

Ask = Callable[[Target, int], Awaitable[tuple[int, bytes]]]
"""Fetches a file of a site, at most so many bytes of it: status and body. Raises WebRefusal."""


class SiteRules(NamedTuple):
    """Patterns of paths; of those that match, the longest counts."""

    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()

    def allows(self, path: str) -> bool:
        path = unquote(path)
        longest = max((len(each) for each in self.denied if matches(each, path)), default=-1)
        return longest < 0 or any(len(each) >= longest and matches(each, path) for each in self.allowed)

    @property
    def size(self) -> int:
        """In bytes, in memory: a character may take four."""
        return sum(map(sys.getsizeof, (*self.allowed, *self.denied)))


ALL = SiteRules()


class Robots:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[str, tuple[float, SiteRules]] = {}
        self._kept_bytes = 0

    async def check(self, target: Target, ask: Ask) -> None:
        """Raises WebRefusal when the site does not want it read, or cannot be asked."""
        rules = self._known(target.origin)
        if rules is None:
            rules = await _asked(target, ask)
            self._keep(target.origin, rules)
        if not rules.allows(target.path):
            words = f"the robots.txt of {target.origin} asks robots not to read this page"
            raise denied(words, "use another source", "robots")

    def _known(self, origin: str) -> SiteRules | None:
        until, rules = self._kept.get(origin, (0.0, ALL))
        return rules if self._now() < until else None

    def _keep(self, origin: str, rules: SiteRules) -> None:
        self._forget(origin)
        self._kept[origin] = (self._now() + KEPT_SECONDS, rules)
        self._kept_bytes += rules.size
        while len(self._kept) > MOST_SITES or self._kept_bytes > MOST_KEPT_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, origin: str) -> None:
        if origin in self._kept:
            self._kept_bytes -= self._kept.pop(origin)[1].size


async def _asked(target: Target, ask: Ask) -> SiteRules:
    where = target._replace(path="/robots.txt")
    try:
        status, body = await ask(where, MOST_BYTES)
    except WebRefusal as refusal:
        if refusal.error.type == "policy_denied":  # it leads somewhere that may not be reached: as if there were none
            return ALL
        raise
    if status >= 500 or status == 429:
        raise unavailable(f"{where.url} cannot be read now (status {status})", "try again in some minutes")
    return rules_of(body.decode(errors="replace")) if status == 200 else ALL


def rules_of(text: str, agent: str = AGENT) -> SiteRules:
    """Of the groups that name the agent; else of those for everybody."""
    ours: dict[str, tuple[list[str], list[str]]] = {agent: ([], []), "*": ([], [])}
    seen: set[str] = set()
    names: set[str] = set()  # of the group that we are in, those that mean us
    is_head = False
    for line in text.removeprefix("\ufeff").splitlines():
        key, _, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if key == "user-agent":
            names = (names if is_head else set()) | ({value.lower()} & ours.keys())
            seen |= names
            is_head = True
        elif key in ("allow", "disallow"):
            is_head = False
            for name in names:
                patterns = ours[name][key == "disallow"]
                if value and len(patterns) < MOST_RULES:
                    patterns.append(unquote(value)[:500])
    allowed, refused = ours[agent if agent in seen else "*"]
    return SiteRules(tuple(allowed), tuple(refused))


def matches(pattern: str, path: str) -> bool:
    """`*` stands for anything, `$` at the end for the end. In time that is linear for each piece."""
    ends = pattern.endswith("$")
    first, *others = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    if not others:
        return not ends or path == first
    at = len(first)
    for piece in others[:-1]:
        at = path.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    last = others[-1]
    return path.endswith(last) and len(path) - len(last) >= at if ends else path.find(last, at) >= 0
