"""What an agent's browser shows, live: `/stream/AGENT` as a WebSocket, `/stream/AGENT/mjpeg` for a plain `<img>`. Both
have one source, whoever looks; one who is slow gets the newest frame, and misses others."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import threading
import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from host.serve.agents import Agent, Agents
from host.serve.bridge import BridgeGone

LINGER_SECONDS, AGAIN_SECONDS, SEND_SECONDS = 10.0, 2.0, 10.0
"""The source goes on so long after the last viewer; is tried again after that; a viewer takes a frame within the
last, or is let go."""
JPEG_BEGINS = b"\xff\xd8\xff"
BOUNDARY = "frame"


class Frames:
    """Of one agent."""

    def __init__(self, agent: Agent, loop: asyncio.AbstractEventLoop) -> None:
        self._agent, self._loop = agent, loop
        self._last = (0, b"")
        self._newer = asyncio.Event()
        self._seen_at = 0.0
        self._thread: threading.Thread | None = None

    async def each(self) -> AsyncIterator[bytes]:
        """The last frame, if there is one, and then the newest whenever one is asked for."""
        number = 0
        while True:
            self._seen_at = time.monotonic()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._listen, daemon=True)
                self._thread.start()
            if self._last[0] != number:
                number, jpeg = self._last
                yield jpeg
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS / 2):
                        await self._newer.wait()

    def _listen(self) -> None:
        """In a thread of its own, until nobody looks."""
        while time.monotonic() - self._seen_at < LINGER_SECONDS and not self._loop.is_closed():
            told = self._agent.bridge.watch()
            with contextlib.suppress(BridgeGone, binascii.Error, RuntimeError), contextlib.closing(told):
                for found in told:
                    jpeg = base64.b64decode(found.jpeg, validate=True)
                    if jpeg.startswith(JPEG_BEGINS):
                        self._loop.call_soon_threadsafe(self._put, found.number, jpeg)
                    if time.monotonic() - self._seen_at > LINGER_SECONDS:
                        return
            time.sleep(AGAIN_SECONDS)

    def _put(self, number: int, jpeg: bytes) -> None:
        if number != self._last[0]:
            self._last = (number, jpeg)
            self._newer.set()
            self._newer = asyncio.Event()


def routes(agents: Agents) -> list[BaseRoute]:
    sources = dict[str, Frames]()

    def source(name: str) -> Frames:
        agent = agents.get(name)
        return sources.setdefault(agent.name, Frames(agent, asyncio.get_running_loop()))

    async def pushed(wire: WebSocket) -> None:
        frames = source(wire.path_params["agent"])
        await wire.accept()
        with contextlib.suppress(WebSocketDisconnect, TimeoutError, RuntimeError):
            async for jpeg in frames.each():
                async with asyncio.timeout(SEND_SECONDS):
                    await wire.send_bytes(jpeg)

    async def mjpeg(request: Request) -> Response:
        frames = source(request.path_params["agent"])

        async def parts() -> AsyncIterator[bytes]:
            async for jpeg in frames.each():
                head = f"--{BOUNDARY}\r\ncontent-type: image/jpeg\r\ncontent-length: {len(jpeg)}\r\n\r\n"
                yield head.encode() + jpeg + b"\r\n"

        return StreamingResponse(parts(), media_type=f"multipart/x-mixed-replace; boundary={BOUNDARY}")

    return [WebSocketRoute("/stream/{agent}", pushed), Route("/stream/{agent}/mjpeg", mjpeg)]
