"""Work that does not end is begun three times, and then it is the PM's turn."""

from __future__ import annotations

import functools
import time
from typing import Any

import pytest

from infra.cell.runner.tries import MOST_TRIES, Stops, may_begin, next_try_at, stops_in, stops_since_word
from infra.shared.conversation import REFUSAL
from tests.cell.cell import Cell, Runner, limits
from tests.cell.loop.replies import says
from tests.cell.loop.waiting import wait_for

TICK = 600.0
NO = says("No.", REFUSAL)


@pytest.mark.parametrize(
    ("stops", "at"),
    [
        (Stops(), 0.0),
        (Stops(1, 1000.0, "no_op_loop"), 1000.0 + TICK),
        (Stops(2, 1000.0, "no_op_loop"), 1000.0 + 6 * TICK),
        (Stops(MOST_TRIES, 1000.0, "no_op_loop"), None),
        (Stops(99, 1000.0, "no_op_loop"), None),
    ],
)
def test_distances_grow_and_end(stops: Stops, at: float | None) -> None:
    """And a clock that is set back lets nobody wait for it, but does not reset the count."""
    assert next_try_at(stops, TICK) == at
    if at is None:
        assert not any(may_begin(stops, TICK, now) for now in (0.0, 1000.0, 1e12))
    elif at:
        assert [may_begin(stops, TICK, now) for now in (999.0, 1000.0, at - 1, at)] == [True, False, False, True]
    else:
        assert may_begin(stops, TICK, 0.0)


def test_which_reports_count() -> None:
    """Runs that were stopped for want of progress; not those that wait for a model or an answer."""
    titles = [
        "main@0123456789ab stopped (no_op_loop): do it",
        "main@0123456789ab stopped (model_unavailable): do it",
        "main@0123456789ab stopped (awaiting_approval): do it",
        "main@0123456789ab stopped (budget): do it",
        "main@0123456789ab stopped (no op loop): do it",
        "main@0123456789ab stopped (no_op_loop, before your last push): do it",
        "main@0123456789ab done: stopped (no_op_loop): do it",
        "watcher: main@0123456789ab stopped (no_op_loop): do it",
        "main@0123456789ab stopped (max_steps): do it (no_op_loop)",
    ]
    assert stops_in((title, float(-at)) for at, title in enumerate(titles)) == Stops(2, 0.0, "no_op_loop")
    assert stops_in([("main@0123456789ab stopped (no_op_loop, try 3 of 3): x", 1.0)]) == Stops(1, 1.0, "no_op_loop")
    for word in ("no_op_loop", "max_failures", "refusal", "max_tokens", "max_wall_time", "policy_denied"):
        assert stops_in([(f"main@0123456789ab stopped ({word}): x", 1.0)]).runs == 1


@pytest.mark.fault("F76")
@pytest.mark.heavy
def test_a_stopped_run_is_begun_three_times_and_then_waits_for_the_pm(cell: Cell) -> None:
    """Neither ticks, nor the runner's death, nor the loss of its state begin a fourth; any push of the PM's does."""
    cell.model.at_last = NO
    cell.tell("do it")
    value = cell.boot(limits=limits(work_seconds=0.2))
    run = cell.start(value)
    wait_for(lambda: "waits for your word" in cell.page(), "the third report")
    assert [f"This was try {nth} of 3" in report for nth, report in enumerate(cell.reports(), 1)] == [True] * 3
    wait_for(lambda: "waits for your word" in run.doing(), "its status says so, too")
    run.process.kill()
    run.ended()
    run = cell.start(cell.boot(limits=value.limits))
    wait_for(functools.partial(_ticked, run, 4), "ticks")
    assert len(cell.model.requests) == MOST_TRIES

    cell.model.at_last = says("Now I will.")
    cell.pm_changes({"src/other.md": "what it needs\n"}, "another push")
    wait_for(lambda: cell.reported("Now I will."), "the report")
    assert '"waits":""' in run.doing()


def _ticked(run: Runner, times: int) -> bool:
    woken = [line for line in run.log().splitlines() if '"runner.woken"' in line and run.boot.id in line]
    return len(woken) >= times


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0b", "\x1c"])
def test_no_subject_of_the_agents_ends_the_count(cell: Cell, end: str) -> None:
    """It may hold what Unicode calls a line end; and the agent may have told git to speak another encoding."""
    context = cell.context()
    assert context.page.report("main@0123456789ab stopped (no_op_loop): do it", "text")
    context.page.look()
    context.git("merge", "--quiet", "--ff-only", "origin/main")
    context.git("commit", "--quiet", "--allow-empty", "--message", f"a note{end}and more")
    for encoding in ("UTF-8", "UTF-16"):
        context.git("config", "i18n.logOutputEncoding", encoding)
        assert stops_since_word(context.git, context.git("rev-parse", "HEAD")).runs == 1


@pytest.mark.heavy
def test_the_count_is_mains_and_the_pms_word_resets_it(cell: Cell) -> None:
    """Of unsent reports as well; the agent's own pushes do not."""
    cell.tell("do it")
    context = cell.context()

    def stops(**other: Any) -> int:
        return stops_since_word(context.git, context.page.look().commit, context.state.memory.unsent).runs

    assert stops() == 0
    before = time.time()
    for nth in (1, 2):
        assert context.page.report(f"main@0123456789ab stopped (no_op_loop{', try 2 of 3' * (nth - 1)}): do it", "text")
        assert stops() == nth
    last = stops_since_word(context.git, context.page.look().commit).last_at
    assert before - 1 <= last <= time.time() + 1
    context.page.add("main@0123456789ab stopped (no_op_loop, try 3 of 3): do it", "text")
    assert stops() == 3
    context.git("commit", "--quiet", "--allow-empty", "--message", "the agent's own")
    context.page.send()
    assert stops() == 3
    cell.tell("another thing")
    assert stops() == 0
