"""The requests that the git door answers besides git (`shared.requests`), each in its own module."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from infra.keep.door_server import Caller, ClientLeft, DoorServer, Limits, Refusal, unless_left
from infra.keep.git_door.ask import ask
from infra.keep.git_door.context import DoorContext, later, refused
from infra.keep.git_door.examine import examine
from infra.keep.git_door.judge import Judged, JudgePush, judge
from infra.keep.git_door.report import report
from infra.keep.git_door.tips import Unreadable, Watch
from infra.keep.mind.kept import changes_in_words, read_kept
from infra.keep.taint import served
from infra.shared.door import Failure, Health, Healthy
from infra.shared.requests import (
    MAX_BYTES,
    MAX_DRIFT,
    MAX_ORIGINS,
    Ask,
    AskDrift,
    AskTaint,
    Drift,
    Examine,
    Record,
    Recorded,
    Report,
    TaintedBy,
    Tips,
)
from infra.shared.secret_shapes import redacted_and_cut
from infra.shared.text import cut

LIMITS = Limits(line_bytes=MAX_BYTES, at_once=100, connections=64)
"""All that are let in are worked on: those that wait for news keep nobody waiting."""
PUSHES = Limits(line_bytes=2 << 20, at_once=100)
DRIFT_CHARS = 300
Requests = Health | Tips | Report | Ask | Examine | AskTaint | AskDrift | Record


class App:
    """`is_runner`: whether the process of this pid may speak for the agent; it may take a moment to tell."""

    def __init__(self, context: DoorContext, watch: Watch, is_runner: Callable[[int], Awaitable[bool]]) -> None:
        self._context, self._watch, self._is_runner = context, watch, is_runner
        self._page, self._one_push = asyncio.Lock(), asyncio.Lock()
        """The first is for what writes main's page."""

    async def serve(
        self, leave: asyncio.Event, requests: socket.socket, pushes: socket.socket, ready: Callable[[], None]
    ) -> None:
        """Until `leave`. `pushes`: where git's hook asks, in a directory of the keep's."""
        await asyncio.gather(
            DoorServer(Requests, self._answer, self._failed, LIMITS).serve_until(leave, requests, ready),
            DoorServer(JudgePush, self._judge, self._failed, PUSHES).serve_until(leave, pushes),
        )

    async def _judge(self, push: JudgePush, caller: Caller) -> Judged:
        async with self._one_push:
            said = () if caller.left.done() else await asyncio.to_thread(judge, push, self._context)
        if caller.left.done() or not push.is_there:
            raise ClientLeft
        if said:
            self._context.log.info("push.refused", reasons=said)
        for why in said:
            if self._context.record:
                self._context.record.push_refused(why)
        lines = (*(f"refused: {why}" for why in said), "nothing of this push was taken") if said else ()
        return Judged("".join(f"{line}\n" for line in lines).encode(errors="replace"))

    async def _answer(self, request: Requests, caller: Caller) -> msgspec.Struct:
        """Nothing ends a thread's work when its client leaves: it would go on without the lock."""
        match request:
            case Health():
                return Healthy()
            case Tips():
                return await unless_left(caller, self._watch.news(request))
            case Report() | Ask() | Record():
                if not await self._is_runner(caller.pid):
                    raise Refusal(refused("reports, questions and events are taken from the agent's runner alone"))
                async with self._page if not isinstance(request, Record) else contextlib.nullcontext():
                    found = await asyncio.to_thread(answer, self._context, request)
            case _:
                found = await asyncio.to_thread(answer, self._context, request)
        if isinstance(found, Failure):
            raise Refusal(found)
        return found

    def _failed(self, error: Exception) -> Failure:
        if isinstance(error, msgspec.MsgspecError | UnicodeDecodeError | RecursionError):
            return refused(f"the request cannot be read: {error}")
        if isinstance(error, Unreadable):
            return later(f"the repository cannot be read: {error}; it must be repaired")
        self._context.log.error("request.failed", exc_info=error)
        return later(f"the git door met {type(error).__name__}; its log, doors.log, has more")


def answer(context: DoorContext, request: Report | Ask | Examine | AskTaint | AskDrift | Record) -> msgspec.Struct:
    """A `Failure` among them. Reports and questions not two at once."""
    match request:
        case Report():
            return report(context, request, context.taint())
        case Ask():
            return ask(context, request, context.taint())
        case Examine():
            return examine(context, request, context.taint())
        case AskTaint(since=since):
            return _tainted_by(context, since)
        case AskDrift():
            return _drift(context)
        case Record(events=events):
            return _recorded(context, events)


def _recorded(context: DoorContext, events: Sequence[dict[str, Any]]) -> Recorded | Failure:
    try:
        return context.events.append(events, context.wall_seconds())
    except OSError as error:
        return later(f"the log of events cannot be written: {error.strerror or error}")
    except ValueError as error:
        return refused(f"what was sent is no event: {error}")


def _tainted_by(context: DoorContext, since: float) -> TaintedBy:
    pages = served(context.places.web_trace, context.wall_seconds(), since)
    origins = dict.fromkeys(page.origin for page in reversed(pages) if page.at >= since)
    return TaintedBy(tuple(origins)[:MAX_ORIGINS], context.taint() is not None)


def _drift(context: DoorContext) -> Drift:
    try:
        kept = read_kept(context.places.var)
    except (OSError, ValueError) as error:
        context.log.error("mind.state_not_readable", reason=redacted_and_cut(str(error), 500))
        kept = None
    found = (kept.drift, changes_in_words(kept)) if kept else ((), ())
    return Drift(*(tuple(cut(line, DRIFT_CHARS) for line in lines[:MAX_DRIFT]) for lines in found))
