"""The requests of a runner on the door's second socket (`shared.requests`), each answered in its own module."""

from __future__ import annotations

from infra.keep.git_door.ask import ask
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.examine import examine
from infra.keep.git_door.report import report
from infra.keep.git_door.taint_of_work import look_at_taint
from infra.shared.requests import AgentReport, Ask, AskTaint, Examine, Reply, Request, TaintedBy


def answer(context: DoorContext, request: Request) -> Reply:
    taint = look_at_taint(context)
    match request:
        case AgentReport():
            return report(context, request, taint)
        case Ask():
            return ask(context, request, taint)
        case Examine():
            return examine(context, request, taint)
        case AskTaint():
            return TaintedBy(taint.now.origins if taint.now else ())
