"""Words about money: at each mark once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.runner.budget_notices import MARKS, BudgetNotices


def test_each_mark_is_told_once() -> None:
    """At 80, 90, 95 and 99 %."""
    notices = BudgetNotices()
    told = []
    for percent in range(101):
        notices.note(percent / 100)
        told += [(percent, words) for words in [notices.news()] if words]
        assert notices.news() is None, "what was said is not said again"
    assert [percent for percent, _ in told] == [80, 90, 95, 99]
    assert all("of the day's budget" in words and "the next UTC day" in words for _, words in told)


@given(st.lists(st.floats(0, 1.2), max_size=20))
def test_never_more_often_than_there_are_marks(course: list[float]) -> None:
    """Also when a new day begins meanwhile, or the figure goes to and fro."""
    notices, told = BudgetNotices(), 0
    for spent in course:
        notices.note(spent)
        told += notices.news() is not None
    assert told <= len(MARKS)
    assert (told > 0) == any(spent >= MARKS[0] for spent in course)
