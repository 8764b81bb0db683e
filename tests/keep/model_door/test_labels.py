"""Calls by label: exploration stays within what the PM allows for a UTC day, and everything else goes on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from infra.cell.model_client import ModelFailure, complete
from infra.keep.ledger.budget import Cost
from infra.keep.ledger.chain import check
from infra.keep.ledger.labels import problem_with_exploration
from infra.keep.ledger.ledger import Ledger, line_of
from infra.keep.ledger.prices import Rates, Tariff
from infra.keep.model_door.accounts import Accounts
from infra.keep.model_door.asked import unit_for, unit_of_task
from infra.keep.model_door.model import CallFailure
from infra.shared.conversation import Completion, Request, Usage, request_from_dict, to_plain
from infra.shared.mind_settings import ExplorationSettings
from tests.keep.model_door.test_budget import NOON, TARIFF, Clock
from tests.shared.rows import each_row

AMPLE = Cost(10**12, 10**12)
SETTINGS = ExplorationSettings(usd=1.0, tokens=1000, calls=4, web=0.5, tool_installation=0.25)
INBOX = "---\ntask_id: TASK-001\npriority: low\n---\nDo it.\n"


def accounts_of(path: Path, settings: ExplorationSettings, clock: Clock) -> Accounts:
    return Accounts(Ledger(str(path)), AMPLE, AMPLE, {("p", "m"): TARIFF}, clock, exploration=settings)


async def call(accounts: Accounts, label: str, tokens: int = 100) -> None:
    entry = await accounts.open("p", "m", "u", Usage(input_tokens=tokens), "run", label)
    await accounts.settle(entry, Usage(input_tokens=tokens), 1, "end_turn")


async def refused(accounts: Accounts, label: str, tokens: int = 100) -> CallFailure:
    with pytest.raises(CallFailure) as caught:
        await call(accounts, label, tokens)
    return caught.value


def test_exploration_ends_at_its_own_limit_and_all_else_goes_on(tmp_path: Path) -> None:
    """By tokens and by calls; a part has its share. A new door knows what was used, a new day begins anew."""
    clock, path = Clock(NOON), tmp_path / "ledger.jsonl"

    async def live() -> None:
        accounts = accounts_of(path, SETTINGS, clock)
        await call(accounts, "exploration/web", 500)
        failure = await refused(accounts, "exploration/web", 1)
        assert (failure.type, failure.retry_after_seconds) == ("exploration_exhausted", 43200)
        assert "exploration.web in minifram.yaml" in failure.message
        await call(accounts, "exploration", 100)
        assert "exploration.usd" in (await refused(accounts, "exploration/skills", 401)).message
        restarted = accounts_of(path, SETTINGS, clock)
        await call(restarted, "exploration/tools", 1)
        assert "exploration.tool_installation" in (await refused(restarted, "exploration/tools", 1)).message
        await call(restarted, "exploration", 1)
        assert (await refused(restarted, "exploration", 1)).type == "exploration_exhausted", "four calls"
        await call(restarted, "task", 9999)
        await call(restarted, "maintenance", 9999)
        labels = (await restarted.today())["labels"]
        assert labels["exploration/web"] == {"usd": 0.0, "tokens": 500, "calls": 1} | {
            "usd": labels["exploration/web"]["usd"]
        }
        assert labels["task"]["calls"] == labels["maintenance"]["calls"] == 1
        clock.now += 86400
        await call(restarted, "exploration", 1000)

    asyncio.run(live())
    lines = path.read_bytes().splitlines()
    assert check(lines).findings == ()
    assert json.loads(lines[0])["label"] == "exploration/web"


def test_money_counts_as_tokens_do(tmp_path: Path) -> None:
    """And the worst case of a call, not what it came to."""
    dear = {("p", "m"): Tariff(Rates(10**15, 0, 0, 0))}
    accounts = Accounts(Ledger(str(tmp_path / "l")), AMPLE, AMPLE, dear, Clock(NOON), exploration=SETTINGS)

    async def live() -> None:
        await call(accounts, "exploration", 1)
        assert "$1.0000" in (await refused(accounts, "exploration", 1)).message
        await call(accounts, "task", 1)

    asyncio.run(live())


def test_without_an_amount_nothing_is_explored(tmp_path: Path) -> None:
    """As it is by default."""
    accounts = accounts_of(tmp_path / "ledger.jsonl", ExplorationSettings(), Clock(NOON))

    failure = asyncio.run(refused(accounts, "exploration"))

    assert "exploration.usd is not set" in failure.message
    assert problem_with_exploration({}, "maintenance", Cost(), ExplorationSettings()) is None


def test_lines_of_before_have_no_label_and_count_as_tasks() -> None:
    """A ledger outlives the versions that wrote it; one of before reads ours."""
    old = {"event": "opened", "time": "t", "day": "d", "id": "i", "unit": "u", "provider": "p", "model": "m"}
    line = line_of(json.dumps(old | {"worst_usd": 1, "worst_tokens": 1}).encode())

    assert line is not None
    assert line.label == "task"


@each_row(
    "label, task, unit",
    [
        ("task", "", "directives"),
        ("task", "TASK-001", unit_of_task(INBOX, "TASK-001")),
        ("task", "TASK-002", "directives"),
        ("maintenance", "TASK-001", "maintenance 2026-01-31"),
        ("exploration/web", "", "exploration 2026-01-31"),
    ],
)
def test_which_unit_a_call_counts_on(label: str, task: str, unit: str) -> None:
    """A task that stands in the inbox is one; another name wins nothing."""
    found = unit_for(label, task, "2026-01-31", lambda: "directives", lambda id: unit_of_task(INBOX, id))

    assert found == unit


def test_a_task_that_the_pm_changes_is_another_unit() -> None:
    """And one that is not there is none."""
    assert unit_of_task(INBOX, "TASK-001") != unit_of_task(INBOX.replace("Do", "Redo"), "TASK-001")
    assert unit_of_task("", "TASK-001") is None


def test_labels_are_left_out_for_a_door_that_does_not_know_them() -> None:
    """A request without them is one that every version reads; a completion with a price is read by every version."""
    plain = to_plain(Request(("s",), (), (), "run"))

    assert not {"label", "task", "model"} & plain.keys()
    assert request_from_dict(plain | {"label": "exploration/web", "task": "TASK-001"}).label == "exploration/web"
    with pytest.raises(msgspec.ValidationError):
        request_from_dict(plain | {"label": "holiday"})
    assert Completion((), "end_turn", "m").usd == 0.0


def test_a_door_of_before_is_asked_again_without_labels_but_never_for_exploration(tmp_path: Path) -> None:
    """It refuses fields that it does not know, and would not bound exploration."""
    from tests.cell.loop.replies import says
    from tests.cell.runner.doors import ModelDoor, Refusal

    door = ModelDoor(str(tmp_path / "m.sock"))
    request = Request(("s",), (), (), "run", label="maintenance")
    refusal = Refusal("invalid_request", "the request is not a conversation: Object contains unknown field `label`")
    door.at_last = lambda asked: says("Yes.") if asked.label == "task" else refusal
    try:
        assert complete(str(tmp_path / "m.sock"), request, 5).text == "Yes."
        with pytest.raises(ModelFailure):
            complete(str(tmp_path / "m.sock"), request._replace(label="exploration"), 5)
    finally:
        door.close()


@pytest.mark.parametrize("label", ["exploration\n", "task\n", "task 2", "", "exploration/other"])
def test_a_label_that_is_none_of_ours_is_no_request(label: str) -> None:
    """It would have a unit of its own, and no limit of exploration."""
    with pytest.raises(ValueError, match="label"):
        request_from_dict({"system": [], "messages": [], "tools": [], "label": label})
