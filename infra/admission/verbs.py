"""The verbs of the request socket: each is one function of its own module, and nothing here decides."""

from __future__ import annotations

from infra.admission.examine_verb import examine
from infra.admission.request_world import World
from infra.contract.requests import Ask, Examine, Refused, Reply, Report, Request


def answer(world: World, request: Request) -> Reply:
    match request:
        case Report():
            return Refused("reports are not taken here")
        case Ask():
            return Refused("questions are not taken here; ask in a report")
        case Examine():
            return examine(world, request)
