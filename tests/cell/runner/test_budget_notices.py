"""Words about money: at each mark once, for each budget by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.runner.budget_notices import MARKS, BudgetNotices
from infra.shared.conversation import Spent


def test_each_mark_is_told_once() -> None:
    """At 80, 90, 95 and 99 %."""
    notices = BudgetNotices()
    told = []
    for percent in range(101):
        notices.note(Spent(unit=percent / 100))
        told += [(percent, words) for words in [notices.news()] if words]
        assert notices.news() is None, "what was said is not said again"
    assert [percent for percent, _ in told] == [80, 90, 95, 99]
    assert all("what this run may cost" in words and "ends with a report" in words for _, words in told)


def test_both_budgets_are_told_in_one_word() -> None:
    """And a jump over several marks is one."""
    notices = BudgetNotices()
    notices.note(Spent(day=0.97, unit=0.80))
    words = notices.news() or ""
    assert "97% of the day's budget" in words
    assert "80% of what this run" in words
    assert words.count("Commit and push") == 1
    notices.note(Spent(day=0.98, unit=0.85))
    assert notices.news() is None
    notices.note(Spent(day=0.99, unit=0.85))
    assert "the next UTC day" in (notices.news() or "")


@given(st.lists(st.builds(Spent, st.floats(0, 1.2), st.floats(0, 1.2)), max_size=20))
def test_never_more_often_than_there_are_marks(course: list[Spent]) -> None:
    """Also when a new day begins meanwhile, or the figures go to and fro."""
    notices, told = BudgetNotices(), 0
    for spent in course:
        notices.note(spent)
        told += notices.news() is not None
    assert told <= 2 * len(MARKS)
    assert told == 0 or any(max(spent.day, spent.unit) >= MARKS[0] for spent in course)
