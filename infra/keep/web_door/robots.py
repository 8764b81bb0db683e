"""What a site asks robots to leave alone (RFC 9309): its robots.txt, kept for some minutes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from protego import Protego

from infra.keep.web_door.refusal import WebRefusal, denied, unavailable
from infra.keep.web_door.target import Target

if TYPE_CHECKING:
    from infra.keep.web_door.fetch import Fetched

AGENT = "minifram"
KEPT_SECONDS = 600.0
MOST_SITES = 100
MOST_BYTES, MOST_LINES = 128 << 10, 1000
"""Of one file; what stands behind that counts for nothing. Each rule is parsed anew for each agent that it is for, so
the parser's time and memory grow with the square of the lines."""


class Robots:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._kept: dict[str, tuple[float, str]] = {}
        """By origin: until when, and the file, which is small beside what a parser makes of it."""

    async def check(self, target: Target, fetch: Callable[[Target], Awaitable[Fetched]]) -> None:
        """Raises WebRefusal when the site does not want it read, or cannot say so now."""
        until, text = self._kept.get(target.origin, (0.0, ""))
        if self._now() >= until:
            text = await _asked(target._replace(path="/robots.txt"), fetch)
            self._kept.pop(target.origin, None)
            self._kept[target.origin] = (self._now() + KEPT_SECONDS, text)
            if len(self._kept) > MOST_SITES:
                del self._kept[next(iter(self._kept))]
        rules = await asyncio.to_thread(Protego.parse, text)  # seconds for a hostile one, in which others are answered
        if not rules.can_fetch(target.url, AGENT):
            words = f"the robots.txt of {target.origin} asks robots not to read this page"
            raise denied(words, "use another source", "robots")


async def _asked(where: Target, fetch: Callable[[Target], Awaitable[Fetched]]) -> str:
    try:
        found = await fetch(where)
    except WebRefusal:  # the page's own request says what is wrong there
        return ""
    if found.status >= 500 or found.status == 429:
        raise unavailable(f"{where.url} cannot be read now (status {found.status})", "try again in some minutes")
    lines = found.body[:MOST_BYTES].decode("utf-8-sig", "replace").splitlines()[:MOST_LINES]
    return "\n".join(lines) if found.status == 200 else ""
