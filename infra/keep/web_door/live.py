"""The last frame of what the browser shows, for whoever looks: who is slow gets the newest, and misses others."""

from __future__ import annotations

import asyncio
import base64
import contextlib

from infra.shared.web import WATCH_SECONDS, Watched


class Live:
    def __init__(self) -> None:
        self._last = Watched(0, "")
        self._newer = asyncio.Event()

    def put(self, jpeg: bytes, run: str) -> None:
        self._last = Watched(self._last.number + 1, base64.b64encode(jpeg).decode(), run)
        self._newer.set()
        self._newer = asyncio.Event()

    async def after(self, number: int) -> Watched:
        """A newer frame than that, or the same one after WATCH_SECONDS. A number from before the door began is none."""
        if self._last.number == number:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._newer.wait()
        return self._last
