"""What waits, and until when."""

from __future__ import annotations

from infra.cell.run_states import StopReason
from infra.cell.waits import COUNTED, Wait, after, is_due, lasting, next_at, released, review_of, words_on
from tests.shared.rows import each_row

TICK, NOW = 600.0, 1_800_000_000.0
AWAITING = Wait("awaiting_approval", 1, None, "d", run="r", asks=("q",))


@each_row(
    "reason, tries, until",
    [
        *(
            (reason, tries, until)
            for reason in COUNTED
            for tries, until in ((0, TICK), (1, 6 * TICK), (2, None), (9, None))
        ),
        (StopReason.AWAITING_APPROVAL, 0, None),
        (StopReason.NOT_RECORDED, 5, TICK),
        (StopReason.COMPLETED, 0, TICK),
    ],
)
def test_distances_grow_and_end(reason: StopReason, tries: int, until: float | None) -> None:
    """Three tries, then the PM's word; but a run that the PM has spoken in is no try."""
    before = Wait(tries=tries, digest="d")
    assert after(before, reason, NOW, TICK, False) == Wait(reason.value, tries + 1, until and NOW + until, "d")
    assert after(before, reason, NOW, TICK, True) == Wait(reason.value, 0, 0.0, "d")


@each_row("reason", [(StopReason.HANDED_OVER,), (StopReason.INTERRUPTED,), (StopReason.MODEL_UNAVAILABLE,)])
def test_what_goes_on_keeps_its_count(reason: StopReason) -> None:
    assert after(AWAITING, reason, NOW, TICK, False) == AWAITING


@each_row(
    "until, is_over",
    [(0.0, True), (NOW, True), (NOW + 1, False), (NOW + 6 * TICK, False), (NOW + 10 * 86_400, True), (None, False)],
)
def test_a_wait_is_over_in_its_time(until: float | None, is_over: bool) -> None:
    """And when the clock was set back, so that it would last longer than any."""
    assert is_due(Wait(until=until), NOW, TICK) is is_over


def test_what_ends_waits() -> None:
    """The PM's word all but a review that is still due; a start those for want of a model. A run with an open question
    and a branch in review can be gone on with."""
    review = review_of(Wait("handed_over", 2, 0.0, "e", branch="b"))
    assert (review.why, review.until, review.is_review) == ("review of b", None, True)
    table = {"a": AWAITING, "b": review, "c": Wait("no_op_loop", 3, None), "the model": Wait("model x", 1, NOW + 5)}
    assert released(table, {"b"}) == {"a": Wait("awaiting_approval", 0, 0.0, "d", "r", ("q",)), "b": review}
    assert is_due(released(table, ())["b"], NOW, TICK)
    assert [*lasting(table)] == ["a", "b", "c"]
    assert next_at(table, NOW) == NOW + 5
    assert next_at(table, NOW + 5) is None


@each_row(
    "wait, said",
    [
        (
            Wait("no_op_loop", 2, NOW),
            "This was try 2 of 3. It stays open; the next one begins when you push to main, or",
        ),
        (
            Wait("no_op_loop", 3, None),
            "This was try 3 of 3. The agent does not begin again by itself: it waits for your",
        ),
        (Wait("no_op_loop", 0, 0.0), "You have pushed to main meanwhile, so it begins again at once."),
        (Wait("not_recorded", 1, NOW), "at a restart, and at a later tick"),
        (AWAITING, "when you have answered, or pushed to main"),
    ],
)
def test_the_pm_reads_what_follows(wait: Wait, said: str) -> None:
    assert said in words_on(wait)
