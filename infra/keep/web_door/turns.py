"""Who fetches now, when more is asked for than is done at once: of those that wait, one of the caller that has the
fewest under way, so that no caller's many requests keep out another's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from infra.keep.web_door.refusal import unavailable

MOST_AT_ONCE = 16
MOST_WAITING = 256


class Turns:
    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self._has = Counter[str]()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def turn(self, caller: str, seconds: float) -> AsyncIterator[None]:
        """Raises WebRefusal when none comes within `seconds`."""
        await self._get(caller, seconds)
        try:
            yield
        finally:
            self._has[caller] -= 1
            self._has += Counter()  # without those that have none
            self._give()

    async def _get(self, caller: str, seconds: float) -> None:
        if len(self._waiting) >= MOST_WAITING:
            raise unavailable(f"{MOST_WAITING} requests wait already", "ask for fewer pages at once")
        place = (caller, asyncio.get_running_loop().create_future())
        self._waiting.append(place)
        self._give()
        try:
            async with asyncio.timeout(seconds):
                await place[1]
        except BaseException as error:
            if place in self._waiting:
                self._waiting.remove(place)
            else:  # it was given while we were being told to stop
                self._has[caller] -= 1
                self._give()
            if isinstance(error, TimeoutError):
                words = f"{self._most} pages are being fetched, and none was done within {seconds:g} s"
                raise unavailable(words, "ask for fewer pages at once") from None
            raise

    def _give(self) -> None:
        while self._waiting and self._has.total() < self._most:
            place = min(self._waiting, key=lambda each: self._has[each[0]])
            self._waiting.remove(place)
            self._has[place[0]] += 1
            if not place[1].done():
                place[1].set_result(None)
