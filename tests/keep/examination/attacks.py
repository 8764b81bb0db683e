"""Attempts to get onto main past the keep's examination, and what held. `python -m tests.keep.examination.attacks`
prints the table, and ends with 1 when a line did not hold. One line shows the known limit, and says so."""

from __future__ import annotations

import sys

import pytest

from tests.table import Row, Table, run, sentence

FILES = (
    "keep/examination/test_examination.py",
    "keep/examination/test_returning.py",
    "keep/git_door/test_examined.py",
)


def row_of(item: pytest.Function) -> Row:
    name, _, case = item.name.removeprefix("test_").partition("[")
    title = name.replace("_", " ") + (f" [{case[:80]}" if case else "")
    return Row("main", title, (sentence(item),))


def main() -> int:
    print("What an agent may try to bring a version of itself onto main that nobody else has examined.")
    return run(Table(row_of, width=10), FILES)


if __name__ == "__main__":
    sys.exit(main())
