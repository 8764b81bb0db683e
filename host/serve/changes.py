"""What changes, as one server-sent stream for each agent: a browser that hears of a change asks for its page again."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from host.serve.agents import PARTS, Agent

LOOK_SECONDS = 0.5
QUIET_SECONDS = 15.0
"""A proxy may close a connection on which nothing comes for a minute."""


class Stream:
    """One look for all listeners of an agent, as long as there are any."""

    def __init__(self) -> None:
        self._listeners = dict[str, set[asyncio.Queue[str]]]()
        self._looking = dict[str, asyncio.Task[None]]()

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        for task in self._looking.values():
            task.cancel()

    def response(self, agent: Agent) -> Response:
        headers = {"x-accel-buffering": "no"}
        return StreamingResponse(self._lines(agent), media_type="text/event-stream", headers=headers)

    async def _lines(self, agent: Agent) -> AsyncIterator[str]:
        mine: asyncio.Queue[str] = asyncio.Queue(maxsize=8)
        listeners = self._listeners.setdefault(agent.name, set())
        listeners.add(mine)
        if agent.name not in self._looking:
            self._looking[agent.name] = asyncio.create_task(self._look(agent))
        try:
            yield ": listening\n\n"
            while True:
                try:
                    yield await asyncio.wait_for(mine.get(), QUIET_SECONDS)
                except TimeoutError:
                    yield ": quiet\n\n"
        finally:
            listeners.discard(mine)
            if not listeners and (task := self._looking.pop(agent.name, None)):
                task.cancel()

    async def _look(self, agent: Agent) -> None:
        before = await run_in_threadpool(agent.stamp)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = await run_in_threadpool(agent.stamp)
            changed = [part for part, old, new in zip(PARTS, before, now, strict=True) if old != new]
            before = now
            if changed:
                line = f"event: changed\ndata: {json.dumps(changed)}\n\n"
                for each in self._listeners[agent.name]:
                    with contextlib.suppress(asyncio.QueueFull):  # it has more than enough to ask for its page again
                        each.put_nowait(line)
