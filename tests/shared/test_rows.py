"""The tables that many tests here are."""

from __future__ import annotations

import pytest

from tests.shared.rows import each_row

ROWS = [(1, 2), (2, 1), (3, 4), (5, 0)]


def test_every_row_is_tried_and_those_that_fail_are_named() -> None:
    """An assertion, another error, and one that was expected and did not come."""
    tried = []

    @each_row("one, other", ROWS)
    def orders(one: int, other: int) -> None:
        tried.append((one, other))
        with pytest.raises(ZeroDivisionError) if other == 4 else pytest.raises(IndexError):
            assert one < other, "the order"
            [][one]

    with pytest.raises(BaseExceptionGroup, match="3 of 4 rows") as failed:
        orders()
    assert tried == ROWS
    assert [error.__notes__ for error in failed.value.exceptions] == [
        [f"in the row (one, other) = {row}"] for row in ROWS[1:]
    ]
    with pytest.raises(ZeroDivisionError):  # one alone, of rows that need no tuples
        each_row("number", {0: ""})(lambda number: 1 / number)()
    with pytest.raises(AssertionError, match="without rows"):
        each_row("number", [])
