"""What plain values are tried by: a table of rows as one test, and texts for hypothesis to choose from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import strategies as st


def each_row(names: str, rows: Collection[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """As pytest's `parametrize` with the same words, but one test for all rows: to start a test, and to tell of it,
    costs some milliseconds, where a row of plain values takes none. All rows are tried; what fails names its row.

    For tests of values alone: rows have no fixtures, and no places of their own."""
    several = "," in names
    assert rows, "a table without rows tests nothing"

    def of(test: Callable[..., None]) -> Callable[[], None]:
        @functools.wraps(test)
        def every_row() -> None:
            failures: list[BaseException] = []
            for row in rows:
                try:
                    test(*row) if several else test(row)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"in the row ({names}) = {row!r}")
                    failures.append(error)
            if len(failures) > 1:
                raise BaseExceptionGroup(f"{len(failures)} of {len(rows)} rows", failures)
            if failures:
                raise failures[0]

        del every_row.__wrapped__  # pytest would take the row's names for fixtures
        return every_row

    return of


_ANY = st.characters(exclude_categories=["Cs"])


def any_text(max_size: int | None = None) -> st.SearchStrategy[str]:
    """All that UTF-8 holds, as `st.text` by itself. That finds out by encoding each character, which takes each process
    0.8 s of a fresh checkout; the one category that it leaves out takes a tenth of that."""
    return st.text(_ANY, max_size=max_size)
