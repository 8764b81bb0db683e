"""What waits, and until when; and what the runner says of itself while a run goes from state to state."""

from __future__ import annotations

import json
from pathlib import Path

import structlog

from infra.cell.run_states import StopReason
from infra.cell.status import LEAVING, WORKING, StatusFile
from infra.cell.waits import COUNTED, HOP_FAILED, Wait, after, after_hop, is_due, released, review_of, words_on
from infra.shared.paths import SLEEPING
from tests.shared.rows import each_row

TICK, NOW = 600.0, 1_800_000_100.0
GRID = 1_800_000_000.0
AWAITING = Wait("awaiting_approval", 0, None, "d", run="r", asks=("q",))


@each_row(
    "reason, tries, until",
    [
        *(
            (reason, tries, until)
            for reason in COUNTED
            for tries, until in ((0, GRID + TICK), (1, GRID + 6 * TICK), (2, None), (9, None))
        ),
        *((reason, 5, GRID + TICK) for reason in (StopReason.NOT_RECORDED, StopReason.MODEL_UNAVAILABLE)),
    ],
)
def test_distances_grow_and_end(reason: StopReason, tries: int, until: float | None) -> None:
    """By ticks of the clock; three tries, then the PM's word."""
    before = Wait(tries=tries, digest="d")
    assert after(before, reason, NOW, TICK) == Wait(reason.value, tries + 1, until, "d")


@each_row("reason", [StopReason.HANDED_OVER, StopReason.INTERRUPTED])
def test_what_goes_on_keeps_its_count(reason: StopReason) -> None:
    assert after(AWAITING, reason, NOW, TICK) == AWAITING


@each_row("tries, until", [(1, GRID), (2, GRID + TICK), (3, GRID + 6 * TICK), (4, None), (9, None)])
def test_a_hop_that_failed_is_a_try(tries: int, until: float | None) -> None:
    """The first two are gone on from at once; one that led somewhere is none."""
    before = Wait("handed_over", tries, digest="d", branch="b")
    assert after_hop(before, True, NOW, TICK) == Wait(HOP_FAILED, tries + 1, until, "d", branch="b")
    assert after_hop(before, False, NOW, TICK) == Wait("", tries, digest="d", branch="b")


@each_row(
    "until, is_over",
    [(0.0, True), (NOW, True), (NOW + 1, False), (NOW + 6 * TICK, False), (NOW + 10 * 86_400, True), (None, False)],
)
def test_a_wait_is_over_in_its_time(until: float | None, is_over: bool) -> None:
    """And when the clock was set back, so that it would last longer than any."""
    assert is_due(Wait(until=until), NOW, TICK) is is_over


@each_row("answered, is_over", [({"q"}, True), ({"other"}, False), ((), False)])
def test_a_call_that_waits_for_an_approval_waits_for_its_answer_alone(answered: set[str], is_over: bool) -> None:
    assert is_due(AWAITING, NOW, TICK, answered) is is_over


def test_the_pms_word_ends_all_but_a_question_and_a_review_that_is_still_due() -> None:
    """A run that was cut short and a branch in review can be gone on with."""
    review = review_of(Wait("handed_over", 2, 0.0, "e", branch="b"))
    assert (review.why, review.until, review.is_review) == ("review of b", None, True)
    away, cut = Wait("model x", 1, NOW + 5), Wait("not_recorded", 1, NOW + 5, run="s")
    table = {"a": AWAITING, "b": review, "c": Wait("no_op_loop", 3, None), "d": cut, "the model": away}
    assert released(table, {"b"}) == {"a": AWAITING, "b": review, "d": Wait("not_recorded", run="s")}
    assert is_due(released(table, ())["b"], NOW, TICK)


@each_row(
    "wait, said",
    [
        (Wait("no_op_loop", 2, NOW), "This was try 2 of 3. It stays open, and is tried again when you push"),
        (Wait("no_op_loop", 3, None), "This was try 3 of 3. It stays open, and the agent does not begin again by"),
        (AWAITING, "goes on with your answer"),
    ],
)
def test_the_pm_reads_what_follows(wait: Wait, said: str) -> None:
    assert said in words_on(wait)


def test_what_is_shown_is_what_is_done_now(tmp_path: Path) -> None:
    """The facts of a run end with it; an error and the services outlast it."""
    path = tmp_path / "life.json"
    status = StatusFile(str(path), structlog.get_logger())

    def shown(*names: str) -> tuple[object, ...]:
        raw = json.loads(path.read_text())
        return tuple(raw[name] for name in ("doing", *names))

    status.show(WORKING, about="do it")
    status.change(state="EXECUTE_TOOL", steps=2, last_error="no model")
    assert shown("about", "state", "steps", "last_error") == (WORKING, "do it", "EXECUTE_TOOL", 2, "no model")
    status.change(services="web: up")
    status.show(SLEEPING, until="later")
    assert shown("about", "state", "steps", "until") == (SLEEPING, "", "", 0, "later")
    status.show(LEAVING)
    assert shown("last_error", "services", "until") == (LEAVING, "no model", "web: up", "")
