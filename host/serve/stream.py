"""What an agent's browser shows, live: `/stream/AGENT` as a WebSocket, `/stream/AGENT/mjpeg` for a plain `<img>`. It
stands in a file that the web door writes over; one who is slow gets the newest frame, and misses others."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from host.serve.agents import Agent, Agents
from host.serve.calls import Problem
from infra.cell.actions import POLICY
from infra.keep.settings.check import SettingsError, read_settings
from infra.shared.web import shown

LOOK_SECONDS = 0.04
JPEG_BEGINS = b"\xff\xd8\xff"


async def frames(path: str) -> AsyncGenerator[bytes, None]:
    """The last frame, if there is one, and then the newest whenever one is asked for."""
    last, changed = b"", 0
    while True:
        with contextlib.suppress(OSError):
            if (found := os.stat(path).st_mtime_ns) != changed and (jpeg := shown(path)):
                changed, is_new, last = found, jpeg != last and jpeg.startswith(JPEG_BEGINS), jpeg
                if is_new:
                    yield jpeg
        await asyncio.sleep(LOOK_SECONDS)


def is_streamed(agent: Agent) -> bool:
    def read() -> bool:
        with contextlib.suppress(SettingsError):
            web = read_settings(agent.home.settings).web
            return web.browser == "on" and web.stream.enabled
        return False

    return agent.known("stream", ("settings",), read)


def routes(agents: Agents) -> list[BaseRoute]:
    async def source(name: str) -> AsyncGenerator[bytes, None]:
        """Raises Problem."""
        agent = agents.get(name)
        if not await run_in_threadpool(is_streamed, agent):
            raise Problem(POLICY, "nothing is shown: 'web.browser' is not 'on', or 'web.stream.enabled' not true")
        return frames(agent.home.places.picture)

    async def pushed(wire: WebSocket) -> None:
        found = await source(wire.path_params["agent"])
        await wire.accept()

        async def push() -> None:
            async for jpeg in found:
                await wire.send_bytes(jpeg)

        pushing = asyncio.create_task(push())
        while (await wire.receive())["type"] != "websocket.disconnect":
            pass  # what a viewer says is not asked for
        pushing.cancel()
        await asyncio.gather(pushing, return_exceptions=True)

    async def mjpeg(request: Request) -> Response:
        found = await source(request.path_params["agent"])
        boundary = secrets.token_hex(16)  # no frame can hold it
        head = f"\r\n--{boundary}\r\ncontent-type: image/jpeg\r\n\r\n".encode()

        async def parts() -> AsyncIterator[bytes]:
            yield head
            async for jpeg in found:
                yield jpeg + head  # a browser shows a part when the next one begins

        return StreamingResponse(parts(), media_type=f"multipart/x-mixed-replace; boundary={boundary}")

    return [WebSocketRoute("/stream/{agent}", pushed), Route("/stream/{agent}/mjpeg", mjpeg)]
