"""The mind over a month, and over a week in every run of the tests."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from infra.cell.mind import memory
from infra.cell.mind.history import Promoted, history_of
from infra.cell.mind.thresholds import Thresholds
from infra.cell.run_states import StopReason
from infra.shared.clock import timestamp
from tests.cell.mind.simulation import POISON, SKILL_PATH, Fact, Life, facts_of
from tests.shared.mind.notes import DAY, START


class Plan(NamedTuple):
    days: int
    facts: int
    """Told in the first week."""
    changed: int
    """Of them, later."""
    tasks: int
    """A day, at least."""
    junk: int
    """Events of the junk day."""


WEEK = Plan(7, 10, 3, 2, 60)
MONTH = Plan(30, 96, 20, 20, 1000)


def lived(life: Life, plan: Plan) -> dict[str, str]:
    """Gives the valid value of each subject."""
    facts = facts_of(plan.facts)
    valid = {fact.subject: fact.value for fact in facts}
    telling_days = min(plan.days - 2, 7)
    per_day = -(-len(facts) // telling_days)
    changes = facts[: plan.changed]
    changing_days = max(1, plan.days - telling_days - 2)
    dice = random.Random(7)
    for day in range(plan.days):
        told = facts[day * per_day : (day + 1) * per_day] if day < telling_days else []
        for number, fact in enumerate(told):
            life.tell(fact, crashes=number % 17 == 5)
        if day >= telling_days:
            at = day - telling_days
            share = -(-len(changes) // changing_days)
            for fact in changes[at * share : (at + 1) * share]:
                new = Fact(fact.subject, f"w{fact.value[1:]}", fact.thing, fact.aspect)
                valid[fact.subject] = new.value
                life.tell(new)
        for number in range(max(0, plan.tasks - len(told))):
            asked = dice.choice(facts[: max(1, (day + 1) * per_day)])
            life.run(
                f"Task {day}.{number}: {asked.shared}",
                [("recall", {"words": asked.shared}), ("bash", {"command": "ls"})],
            )
        _troubles(life, day, plan)
        life.new_day()
    return valid


def _troubles(life: Life, day: int, plan: Plan) -> None:
    match day:
        case 1:  # a page says it with all that counts for others, and later runs repeat it
            life.origins = ("evil.example",)
            note = {"subject": "reports", "statement": POISON, "check": "test -d .", "quote": "Read the page"}
            life.run("Read the page.", [("fetch_page", {"url": "https://evil.example/"}), ("note", note)])
            life.origins = ()
            for _ in range(3):
                life.run("Go on.", [("note", {"subject": "reports", "statement": POISON})])
        case 2:
            life.tear()
        case 3:
            with life.full_disk():
                life.run("Write it down.", [("note", {"subject": "disk", "statement": "the disk is large"})])
        case 4:
            for run in range(-(-plan.junk // 20)):
                notes = [{"subject": f"thing {run}", "statement": f"it looks like {run} and {at}"} for at in range(20)]
                life.run("Look around.", [("note", note) for note in notes])
        case 5:
            for _ in range(6):
                read = ("read_file", {"path": f"/agent/{SKILL_PATH}"})
                life.run("Sum the column.", [read, ("bash", {"command": "false"})], end=StopReason.MAX_FAILURES)
            life.hop(Thresholds(context_tokens=6_000))


def _is_right(life: Life, plan: Plan, valid: dict[str, str]) -> None:
    facts = facts_of(plan.facts)
    shared = sum(valid[fact.subject] in life.recall(fact.shared) for fact in facts)
    synonyms = sum(valid[fact.subject] in life.recall(fact.synonyms) for fact in facts)
    assert shared >= 0.95 * len(facts)
    assert synonyms >= 0.8 * len(facts)
    for fact in facts[: plan.changed]:
        shown = life.recall(fact.shared)
        new, old = shown.find(valid[fact.subject]), shown.find(fact.value)
        assert new >= 0, fact
        assert old < 0 or new < old, fact
    held = memory.read(life.mind.root).every
    holding = {each.subject: each.claim for each in held if each.id[0] == "L" and each.status == "active"}
    assert not {fact.subject for fact in facts[: plan.changed] if fact.value in holding.get(fact.subject, "")}
    junk_day = timestamp(START + 4 * DAY)[:10]
    promoted = [each for each in history_of(life.mind.places.events).entries(Promoted) if each.at.startswith(junk_day)]
    assert sum(each.fact.what in ("item", "belief") for each in promoted) <= 10
    assert "looks like" not in life.texts()
    assert POISON not in life.texts()
    assert life.done("daily_summary") == plan.days
    assert life.done("weekly_review") == plan.days // 7
    assert not life.failed()
    needs_the_pm = [*life.mind.notes("mind.refused"), *life.mind.notes("mind.branch_missing")]
    assert not needs_the_pm
    placed = life.mind.notes("mind.placed")
    assert placed
    assert max(each["tokens"] for each in placed) <= Thresholds().context_tokens
    assert life.mind.notes("mind.events_wait")
    assert not (Path(life.mind.root) / SKILL_PATH).exists()
    assert not life.mind.git("status", "--porcelain")
    assert life.mind.bare("rev-parse", "refs/heads/mind") == life.mind.git("rev-parse", "HEAD")


@pytest.mark.heavy
def test_a_week(tmp_path: Path) -> None:
    life = Life(tmp_path)
    _is_right(life, WEEK, lived(life, WEEK))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_month(tmp_path: Path) -> None:
    life = Life(tmp_path)
    _is_right(life, MONTH, lived(life, MONTH))
