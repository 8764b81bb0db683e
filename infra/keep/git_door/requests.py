"""The requests of a runner on the door's second socket (`shared.requests`), each answered in its own module."""

from __future__ import annotations

from infra.keep.git_door.ask import ask
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.examine import examine
from infra.keep.git_door.report import report
from infra.keep.mind import heads
from infra.keep.mind.kept import changes_in_words, read_kept
from infra.keep.taint import served
from infra.shared.requests import (
    MAX_ORIGINS,
    AgentReport,
    Ask,
    AskHeads,
    AskMind,
    AskTaint,
    Examine,
    MindState,
    NoteHead,
    Reply,
    Request,
    TaintedBy,
)
from infra.shared.secret_shapes import redacted_and_cut


def answer(context: DoorContext, request: Request) -> Reply:
    match request:
        case NoteHead():
            return heads.note(context.places.var, request, context.wall_seconds())
        case AskHeads():
            return heads.held(context.places.var, request)
        case AskMind():
            return _state_of_mind(context)
    taint = context.taint()
    match request:
        case AgentReport():
            return report(context, request, taint)
        case Ask():
            return ask(context, request, taint)
        case Examine():
            return examine(context, request, taint)
        case AskTaint(since):
            pages = served(context.places.web_trace, context.wall_seconds(), since)
            origins = dict.fromkeys(page.origin for page in reversed(pages) if page.at >= since)
            return TaintedBy(tuple(origins)[:MAX_ORIGINS], taint is not None)


def _state_of_mind(context: DoorContext) -> MindState:
    try:
        kept = read_kept(context.places.var)
    except (OSError, ValueError) as error:
        context.log.error("mind.state_not_readable", reason=redacted_and_cut(str(error), 500))
        kept = None
    return MindState(kept.drift, changes_in_words(kept)) if kept else MindState()
