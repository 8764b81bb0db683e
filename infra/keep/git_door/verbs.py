"""The verbs of the request socket: each is one function of its own module, and nothing here decides."""

from __future__ import annotations

from infra.keep.git_door.allowance import Allowance
from infra.keep.git_door.ask_verb import ask
from infra.keep.git_door.examine_verb import examine
from infra.keep.git_door.report_verb import AT_ONCE, SECONDS_EACH, report
from infra.keep.git_door.request_world import World
from infra.shared.requests import Ask, Examine, Reply, Report, Request
from infra.shared.same_trouble import SameTrouble


class Verbs:
    def __init__(self, world: World) -> None:
        self._world = world
        self._trouble = SameTrouble()
        self._reports = Allowance(AT_ONCE, SECONDS_EACH)

    def answer(self, request: Request) -> Reply:
        match request:
            case Report():
                return report(self._world, request, self._trouble, self._reports)
            case Ask():
                return ask(self._world, request)
            case Examine():
                return examine(self._world, request)
