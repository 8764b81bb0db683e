"""The attacks that need the whole agent, or rules that are in force already, as rows: each is a test, tried here.

`python -m tests.sealed.held` prints what holds, by which test that was seen, and ends with 1 when one did not."""

from __future__ import annotations

import re
import sys

import pytest

from tests.table import Row, Table, run, sentence

FILES = (
    "sealed/test_seal.py",
    "sealed/test_neighbours.py",
    "egress/test_in_force.py",
    "egress/test_allowlist.py",
    "egress/test_before.py",
)
LINES = re.compile(r"\((S\d\d(?:[-,] ?S\d\d)*)\)")
"""In a module's docstring: the lines of the list of attacks that its tests are for."""


def row_of(item: pytest.Function) -> Row:
    lines = LINES.search(item.module.__doc__ or "")
    return Row(lines[1] if lines else "-", item.name, (sentence(item),))


def main() -> int:
    return run(Table(row_of, width=10), FILES)


if __name__ == "__main__":
    sys.exit(main())
