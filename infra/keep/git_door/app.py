"""The requests that the git door answers besides git (`shared.requests`), each in its own module."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from infra.keep.door_server import Caller, ClientLeft, DoorServer, Limits, asked_to_leave, unless_left
from infra.keep.git_door.ask import ask
from infra.keep.git_door.context import DoorContext, later, refused
from infra.keep.git_door.examine import examine
from infra.keep.git_door.judge import Judged, JudgePush, judge
from infra.keep.git_door.report import report
from infra.keep.git_door.tips import Unreadable, Watch
from infra.keep.taint import served
from infra.shared.branches import problem_with_branch
from infra.shared.door import Failure, Health, Healthy
from infra.shared.requests import (
    MAX_BYTES,
    MAX_ORIGINS,
    Ask,
    AskTaint,
    Examine,
    Record,
    Recorded,
    Report,
    TaintedBy,
    Tips,
)

LIMITS = Limits(line_bytes=MAX_BYTES, at_once=100, connections=64)
"""All that are let in are worked on: those that wait for news keep nobody waiting."""
PUSHES = Limits(line_bytes=2 << 20, at_once=100)
Requests = Health | Tips | Report | Ask | Examine | AskTaint | Record


class App:
    """`is_runner`: whether the process of this pid may speak for the agent; it may take a moment to tell."""

    def __init__(self, context: DoorContext, watch: Watch, is_runner: Callable[[int], Awaitable[bool]]) -> None:
        self._context, self._watch, self._is_runner = context, watch, is_runner
        self._page, self._one_push = asyncio.Lock(), asyncio.Lock()
        """The first is for what writes main's page."""

    async def serve(
        self,
        requests: socket.socket,
        pushes: socket.socket,
        ready: Callable[[], None],
        leave: asyncio.Event | None = None,
    ) -> None:
        """As a door's server does. `pushes`: where git's hook asks, in a directory of the keep's."""
        leave = leave or asked_to_leave()
        await asyncio.gather(
            DoorServer(Requests, self._answer, self._failed, LIMITS).serve(requests, ready, leave),
            DoorServer(JudgePush, self._judge, self._failed, PUSHES).serve(pushes, leave=leave),
        )

    async def _judge(self, push: JudgePush, caller: Caller) -> Judged:
        async with self._one_push:
            said = () if caller.left.done() else await asyncio.to_thread(judge, push, self._context)
        if caller.left.done() or not push.is_there:
            raise ClientLeft
        if said:
            self._context.log.info("push.refused", reasons=said)
        for why in said:
            self._context.record.push_refused(why)
        lines = (*(f"refused: {why}" for why in said), "nothing of this push was taken") if said else ()
        return Judged("".join(f"{line}\n" for line in lines).encode(errors="replace"))

    async def _answer(self, request: Requests, caller: Caller) -> msgspec.Struct:
        """Nothing ends a thread's work when its client leaves: it would go on without the lock."""
        if isinstance(request, Health):
            return Healthy()
        if isinstance(request, Tips):
            return await unless_left(caller, self._watch.news(request))
        if isinstance(request, Report | Ask | Record) and not await self._is_runner(caller.pid):
            raise refused("reports, questions and events are taken from the agent's runner alone")
        async with self._page if isinstance(request, Report | Ask) else contextlib.nullcontext():
            return await asyncio.to_thread(answer, self._context, request)

    def _failed(self, error: Exception) -> Failure:
        if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | RecursionError):
            return refused(f"the request cannot be read: {error}").failure
        if isinstance(error, Unreadable):
            return later(f"the repository cannot be read: {error}; it must be repaired").failure
        self._context.log.error("request.failed", exc_info=error)
        return later(f"the git door met {type(error).__name__}; its log, doors.log, has more").failure


def answer(context: DoorContext, request: Report | Ask | Examine | AskTaint | Record) -> msgspec.Struct:
    """Reports and questions not two at once. Raises Refusal."""
    if isinstance(request, Report | Ask | Examine) and (problem := problem_with_branch(request.branch)):
        raise refused(problem)
    match request:
        case Report():
            return report(context, request, context.taint())
        case Ask():
            return ask(context, request, context.taint())
        case Examine():
            return examine(context, request, context.taint())
        case AskTaint(since=since):
            return _tainted_by(context, since)
        case Record(events=events):
            return _recorded(context, events)


def _recorded(context: DoorContext, events: Sequence[dict[str, Any]]) -> Recorded:
    try:
        return context.events.append(events, context.wall_seconds())
    except OSError as error:
        raise later(f"the log of events cannot be written: {error.strerror or error}") from None
    except ValueError as error:
        raise refused(f"what was sent is no event: {error}") from None


def _tainted_by(context: DoorContext, since: float) -> TaintedBy:
    pages = served(context.places.web_trace, context.wall_seconds(), since)
    origins = dict.fromkeys(page.origin for page in reversed(pages) if page.at >= since)
    return TaintedBy(tuple(origins)[:MAX_ORIGINS], context.taint() is not None)
