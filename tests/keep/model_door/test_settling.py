"""What the door writes down, and tells the runner, of calls that nobody counted: in the test's own process, with a
model made by hand and a real ledger."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from infra.keep.ledger.lines import Ledger
from infra.keep.ledger.prices import FREE, Tariff, rates
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.app import ModelDoor
from infra.keep.model_door.model import Answer, CallFailure
from infra.keep.model_door.models import Offer
from infra.shared.conversation import END_TURN, Completion, Request, Text, Usage
from tests.keep.model_door.doors import a_request

MOST = Usage(1000, 100)


class Hand:
    """A model that does as it is told, and its one call."""

    provider, name, sees, problem = "openai", "m", True, None
    most = MOST

    def __init__(self, does: Answer | Exception) -> None:
        self._does = does

    def prepare(self, request: Request) -> Hand:
        return self

    async def make(self) -> Answer:
        if isinstance(self._does, Exception):
            raise self._does
        return self._does


def opened(directory: Path, model: Any) -> ModelDoor:
    ledger = Ledger(str(directory / "ledger.jsonl"))
    return ModelDoor([Offer(model, FREE)], Accounts(ledger, 10**12, {("openai", "m"): FREE}, lambda: 1_800_000_000.0))


def last_line(directory: Path) -> dict[str, Any]:
    line: dict[str, Any] = json.loads((directory / "ledger.jsonl").read_text().splitlines()[-1])
    return line


def test_a_bug_in_a_call_settles_it_at_its_worst(tmp_path: Path) -> None:
    """The reservation is not left open for the day: what was paid is not known, and the exception goes on."""
    door = opened(tmp_path, Hand(OverflowError("a bug")))

    with pytest.raises(OverflowError, match="a bug"):
        asyncio.run(door.complete(a_request()))

    line = last_line(tmp_path)
    assert (line["event"], line["measured"], line["input_tokens"]) == ("settled", False, sum(MOST))


@pytest.mark.parametrize("measured", [True, False])
def test_the_worst_case_is_not_told_as_a_count(tmp_path: Path, measured: bool) -> None:
    """The ledger has it; the runner, who reckons with counts, hears of none."""
    counted = Usage(10, 2) if measured else MOST
    answer = Answer(Completion((Text("Hello."),), END_TURN, "m", counted), measured)

    said = asyncio.run(opened(tmp_path, Hand(answer)).complete(a_request()))

    assert said.usage == (counted if measured else Usage())
    line = last_line(tmp_path)
    assert line["measured"] is measured
    assert sum(line[name] for name in Usage.__struct_fields__) == sum(counted)


def test_a_prompt_of_unknown_class_is_settled_at_its_dearest(tmp_path: Path) -> None:
    """At its own class it would be booked too low."""
    for has_classes, usd in ((True, 10.0), (False, 12.5)):
        failure = CallFailure("unavailable", "gone", usage=Usage(10**6))
        failure.measured, failure.has_classes = False, has_classes
        directory, hand = tmp_path / str(has_classes), cast(Any, Hand(failure))
        ledger = Ledger(str(directory / "ledger.jsonl"))
        accounts = Accounts(ledger, 10**15, {("openai", "m"): Tariff(rates(10, 50))}, lambda: 1_800_000_000.0)
        with pytest.raises(CallFailure):
            asyncio.run(ModelDoor([Offer(hand, FREE)], accounts).complete(a_request()))
        line = last_line(directory)
        assert (line["usd"], line["measured"]) == (usd, False)
