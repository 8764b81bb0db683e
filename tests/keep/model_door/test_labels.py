"""Calls by label: exploration stays within what the PM allows for a UTC day, and everything else goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from infra.keep.ledger.budgets import by_label, limits_of, passed
from infra.keep.ledger.lines import Ledger
from infra.keep.ledger.prices import Rates, Tariff
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.model import CallFailure
from infra.shared.conversation import Request, Usage
from tests.keep.model_door.test_budget import NOON, Clock, an_answer

AMPLE = 10**18
DEAR = {("p", "m"): Tariff(Rates(10**12, 10**12, 10**12, 10**12))}
"""A thousandth of a dollar for a token."""


def accounts_of(path: Path, usd: float | None, clock: Clock) -> Accounts:
    return Accounts(Ledger(str(path)), AMPLE, DEAR, clock, exploration_usd=usd)


async def call(accounts: Accounts, label: str, tokens: int = 100) -> None:
    entry = await accounts.open("p", "m", Usage(input_tokens=tokens), "run", label)
    await accounts.settle(entry, an_answer(Usage(input_tokens=tokens)), 1)


async def refused(accounts: Accounts, label: str, tokens: int = 100) -> CallFailure:
    with pytest.raises(CallFailure) as caught:
        await call(accounts, label, tokens)
    return caught.value


@pytest.mark.attack("S62")
def test_exploration_ends_at_its_own_limit_and_all_else_goes_on(tmp_path: Path) -> None:
    """A part has its share of the money. A new door knows what was used, a new day begins anew."""
    clock, path = Clock(NOON), tmp_path / "ledger.jsonl"

    async def live() -> None:
        accounts = accounts_of(path, 1.0, clock)
        await call(accounts, "exploration/web", 500)
        failure = await refused(accounts, "exploration/web", 1)
        assert (failure.type, failure.retry_after_seconds) == ("exploration_exhausted", 43200)
        assert "50% of exploration.usd for exploration/web" in failure.message
        await call(accounts, "exploration", 100)
        assert "exploration.usd" in (await refused(accounts, "exploration/skills", 401)).message
        restarted = accounts_of(path, 1.0, clock)
        assert "25%" in (await refused(restarted, "exploration/tools", 251)).message
        await call(restarted, "exploration/tools", 250)
        await call(restarted, "task", 9999)
        await call(restarted, "maintenance", 9999)
        used = by_label(Ledger(str(path)).day("2026-01-31"))
        assert (used["exploration/web"].tokens, used["exploration/web"].calls) == (500, 1)
        assert used["task"].calls == used["maintenance"].calls == 1
        clock.now += 86400
        await call(restarted, "exploration", 1000)

    asyncio.run(live())
    lines = path.read_bytes().splitlines()
    assert json.loads(lines[0])["label"] == "exploration/web"


def test_without_an_amount_nothing_is_explored(tmp_path: Path) -> None:
    """As it is by default."""
    accounts = accounts_of(tmp_path / "ledger.jsonl", None, Clock(NOON))

    failure = asyncio.run(refused(accounts, "exploration"))

    assert "exploration.usd, which is not set" in failure.message
    assert passed(limits_of(0, None), {}, "exploration", 0, "2026-01-31"), "also when it costs nothing"
    assert passed(limits_of(0, None), {}, "maintenance", 0, "2026-01-31") is None


@pytest.mark.parametrize("label", ["exploration\n", "task\n", "task 2", "", "exploration/other"])
def test_a_label_that_is_none_of_ours_is_no_request(label: str) -> None:
    """It would have no limit of exploration."""
    with pytest.raises(ValueError, match="label"):
        msgspec.convert({"system": [], "messages": [], "tools": [], "label": label}, Request)
