"""What an agent's browser shows, live: `/stream/AGENT` as a WebSocket, `/stream/AGENT/mjpeg` for a plain `<img>`. Both
have one source, however many look; one who is slow gets the newest frame, and misses others."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from host.serve.agents import Agent, Agents
from host.serve.bridge import BridgeGone
from host.serve.calls import Problem
from infra.cell.actions import POLICY
from infra.keep.settings.check import SettingsError, read_settings
from infra.shared.web import Watched

LINGER_SECONDS = 10.0
"""The source goes on so long after the last viewer."""
JPEG_BEGINS = b"\xff\xd8\xff"
Watch = Callable[[], Generator[Watched, None, None]]


class Frames:
    """Of one agent. It listens in a thread while somebody looks, and keeps the last frame for who comes later."""

    def __init__(self, watch: Watch, linger_seconds: float = LINGER_SECONDS) -> None:
        self._watch, self._linger_seconds, self._loop = watch, linger_seconds, asyncio.get_running_loop()
        self._last = (0, b"")
        self._newer = asyncio.Event()
        self._seen_at = 0.0
        self._thread: threading.Thread | None = None

    async def each(self) -> AsyncGenerator[bytes, None]:
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
                    async with asyncio.timeout(self._linger_seconds / 2):
                        await self._newer.wait()

    def _listen(self) -> None:
        """Until nobody looks, or the program in the sandbox has ended: whoever looks on begins it anew."""
        # RuntimeError: the server has ended meanwhile.
        with contextlib.suppress(BridgeGone, RuntimeError), contextlib.closing(self._watch()) as told:
            for found in told:
                self._put(found)
                if time.monotonic() - self._seen_at > self._linger_seconds:
                    return

    def _put(self, found: Watched) -> None:
        """It is the cell's word: what is no picture is passed over."""
        with contextlib.suppress(ValueError):
            jpeg = base64.b64decode(found.jpeg, validate=True)
            if jpeg.startswith(JPEG_BEGINS) and found.number != self._last[0]:
                self._last = (found.number, jpeg)
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._newer.set()
        self._newer = asyncio.Event()


def is_streamed(agent: Agent) -> bool:
    def read() -> bool:
        with contextlib.suppress(SettingsError):
            web = read_settings(agent.home.settings).web
            return web.browser == "on" and web.stream.enabled
        return False

    return agent.known("stream", ("settings",), read)


def routes(agents: Agents) -> list[BaseRoute]:
    sources = dict[str, Frames]()

    async def source(name: str) -> Frames:
        """Raises Problem."""
        agent = agents.get(name)
        if not await run_in_threadpool(is_streamed, agent):
            raise Problem(POLICY, "nothing is shown: 'web.browser' is not 'on', or 'web.stream.enabled' not true")
        if name not in sources:
            sources[name] = Frames(agent.bridge.watch)
        return sources[name]

    async def pushed(wire: WebSocket) -> None:
        frames = await source(wire.path_params["agent"])
        await wire.accept()

        async def push() -> None:
            async for jpeg in frames.each():
                await wire.send_bytes(jpeg)

        pushing = asyncio.create_task(push())
        while (await wire.receive())["type"] != "websocket.disconnect":
            pass  # what a viewer says is not asked for
        pushing.cancel()
        await asyncio.gather(pushing, return_exceptions=True)

    async def mjpeg(request: Request) -> Response:
        frames = await source(request.path_params["agent"])

        boundary = secrets.token_hex(16)  # no frame can hold it
        head = f"\r\n--{boundary}\r\ncontent-type: image/jpeg\r\n\r\n".encode()

        async def parts() -> AsyncIterator[bytes]:
            yield head
            async for jpeg in frames.each():
                yield jpeg + head  # a browser shows a part when the next one begins

        return StreamingResponse(parts(), media_type=f"multipart/x-mixed-replace; boundary={boundary}")

    return [WebSocketRoute("/stream/{agent}", pushed), Route("/stream/{agent}/mjpeg", mjpeg)]
