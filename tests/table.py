"""Tests as the rows of a table: what was tried, whether it held, and how long that took. A plugin of pytest's, for the
examinations that `make` prints.

What a row says comes from the test itself; which tests there are is the examination's to choose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent


class Row(NamedTuple):
    """What is said of one test before it has run."""

    label: str
    """In the first column; may be empty."""
    title: str
    words: tuple[str, ...]
    """Each on a line of its own below the title."""


class Table:
    """One row for each test, once it has ended."""

    def __init__(self, row_of: Callable[[pytest.Function], Row], width: int = 0) -> None:
        """`width`: of the labels."""
        self._row_of = row_of
        self._width = width
        self._rows: dict[str, Row] = {}
        self.counts = {"held": 0, "NOT HELD": 0, "not run": 0}

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        self._rows = {item.nodeid: self._row_of(item) for item in items}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            print(f"NOT HELD: {report.nodeid} cannot be read\n{report.longreprtext}", flush=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        row = self._rows[report.nodeid]
        seen = "held" if report.passed else "not run" if _is_skipped(report) else "NOT HELD"
        self.counts[seen] += 1
        label = f"{row.label:{self._width}} " if self._width else ""
        print(f"{label}{seen:8} {report.duration:6.1f} s  {row.title}")
        margin = " " * (len(label) + len("NOT HELD nnnn.n s") + 2)
        for line in row.words:
            print(f"{margin}{line}")
        if not report.passed:
            print(f"{margin}{_reason(report)}" if _is_skipped(report) else report.longreprtext)
        print(end="", flush=True)


def _is_skipped(report: pytest.TestReport) -> bool:
    """Left out, and not one that failed as it was expected to."""
    return report.skipped and not hasattr(report, "wasxfail")


def _reason(report: pytest.TestReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def sentence(item: pytest.Function) -> str:
    """Its docstring on one line."""
    return " ".join((item.function.__doc__ or "").split())


def run(table: Table, files: Iterable[str]) -> int:
    """Try the tests of `files`, all of them, in this process; gives pytest's exit status."""
    words = ["-m", "", "-p", "no:terminal", "-p", "no:cacheprovider", *(str(TESTS / name) for name in files)]
    return int(pytest.main(words, plugins=[table]))
