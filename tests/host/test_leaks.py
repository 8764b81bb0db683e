"""No place in which the command shows what others wrote shows a secret (`tests/shared/leaks.py`), even where an agent's
own code, or an earlier version of ours, left one in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from host.agent import logs
from host.agent.events import shown
from host.agent.runs import step_of
from host.notify import records
from host.repository.approvals import _asking
from tests.host.desk import Desk
from tests.shared.leaks import Place, counters_stay, examine, question
from tests.shared.mind.events import event_of


def places(desk: Desk) -> dict[str, Place]:
    home = desk.home()

    def run(words: str, given: Mapping[str, Any]) -> str:
        return str(step_of(json.dumps({"kind": "told", "at": "t", "text": words, "call": given}).encode()))

    def log(words: str, given: Mapping[str, Any]) -> str:
        content = f"{words}\n{json.dumps({'event': words, 'call': given})}\n".encode()
        return str(logs._lines(logs.File("/", "x", "doors", ""), content, ""))

    def event(words: str, given: Mapping[str, Any]) -> str:
        made = event_of(words)
        return str(
            shown(msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, details=dict(given))))
        )

    return {
        "event": event,
        "notification": lambda words, given: f"{records.line(words, ())}\n{records.details(words, ())}",
        "question": lambda words, given: str(_asking(home, question(words, given))),
        "run": run,
        "log": log,
    }


def test_no_place_of_the_host_shows_a_secret(desk: Desk) -> None:
    examine(places(desk), 1)


def test_counters_of_tokens_are_shown_in_each_place(desk: Desk) -> None:
    counters_stay(places(desk))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_place_of_the_host_shows_a_secret_in_any_position(desk: Desk, seed: int) -> None:
    examine(places(desk), seed, most=100)
