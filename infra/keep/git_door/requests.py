"""The requests of a runner on the door's second socket (`shared.requests`), each answered in its own module."""

from __future__ import annotations

from infra.keep.git_door.ask import ask
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.examine import examine
from infra.keep.git_door.report import report
from infra.shared.requests import AgentReport, Ask, Examine, Reply, Request


def answer(context: DoorContext, request: Request) -> Reply:
    match request:
        case AgentReport():
            return report(context, request)
        case Ask():
            return ask(context, request)
        case Examine():
            return examine(context, request)
