"""The lists of faults and attacks, and the tests that show their lines: `python -m tests.lists spec/FAULTS.md`.

The page is the only list. Each line has a number, what is injected, what must be seen, and the tests that show it or
the reason why it is not tried; the tests are run, each once, and what became of them is told by number. Ends with 1
when a line does not hold."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FAULTS, ATTACKS = ROOT / "spec/FAULTS.md", ROOT / "spec/ATTACKS.md"

_LINE = re.compile(r"^- \*\*(?P<number>[A-Z]\d+)\*\* (?P<rest>.+(?:\n  .+)*)", re.MULTILINE)
_PART = re.compile(r"\n  - ")
_TEST = re.compile(r"`(?P<test>tests/[\w/]+\.py::test_\w+(?:\[.+\])?)`")
_NOT_TRIED, _NOT_HELD = "not tried: ", "not held: "
_TELL_SECONDS = 15.0


class Line(NamedTuple):
    """One fault or attack."""

    number: str
    injected: str
    seen: str
    """What must be seen."""
    tests: tuple[str, ...]
    """As pytest names them. One without `[…]` stands for all its cases, `[S01*]` for those that begin so."""
    not_tried: str
    """Why it, or a part of it, is not tried here."""


def read(page: str) -> list[Line]:
    """The lines of a page, in their order. Raises ValueError for one that is none."""
    return [_line(found["number"], found["rest"]) for found in _LINE.finditer(page)]


def _line(number: str, rest: str) -> Line:
    words, *parts = (" ".join(part.split()) for part in _PART.split(rest))
    injected, arrow, seen = words.partition(" → ")
    tests: list[str] = []
    reasons: list[str] = []
    for part in parts:
        test = _TEST.fullmatch(part)
        if test:
            tests.append(test["test"])
        elif part.startswith((_NOT_TRIED, _NOT_HELD)):
            reasons.append(part.partition(": ")[2])
        else:
            expected = f"a test in backquotes, '{_NOT_TRIED}…' or '{_NOT_HELD}…'"
            raise ValueError(f"{number}: expected {expected}, found {part!r}")
    if not arrow or not injected or not seen:
        raise ValueError(f"{number}: expected 'what is injected → what must be seen', found {words!r}")
    return Line(number, injected, seen, tuple(tests), " ".join(reasons))


def function(test: str) -> str:
    """The test with all its cases."""
    return test.partition("[")[0]


def is_meant(test: str, case: str) -> bool:
    """Does the name in the page mean this one of pytest's?"""
    if test.endswith("*]"):
        return case.startswith(test.removesuffix("*]"))
    return case == test or ("[" not in test and function(case) == test)


@dataclass
class Outcomes:
    """What became of each test; a plugin of pytest's."""

    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    passed: dict[str, float] = field(default_factory=dict)
    """With how long it took."""
    unreadable: list[str] = field(default_factory=list)
    _told: float = field(default_factory=time.monotonic)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.unreadable.append(f"{report.nodeid} cannot be read\n{report.longreprtext}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = report.longreprtext
            print(f"NOT HELD {report.nodeid}\n{report.longreprtext}", file=sys.stderr, flush=True)
        elif report.skipped:
            self.skipped[report.nodeid] = _reason(report)
        elif report.when == "call":
            self.passed[report.nodeid] = report.duration
        if time.monotonic() - self._told > _TELL_SECONDS:
            self._told = time.monotonic()
            print(f"… {len(self.passed)} tests have passed", file=sys.stderr, flush=True)

    @property
    def all(self) -> set[str]:
        return self.failed.keys() | self.skipped.keys() | self.passed.keys()


def _reason(report: pytest.TestReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


class Row(NamedTuple):
    """A line once its tests were run."""

    line: Line
    seen: str
    passed: int
    seconds: float
    notes: tuple[str, ...]


HELD, NOT_HELD, NOT_TRIED = "held", "NOT HELD", "not tried"


def fold(line: Line, outcomes: Outcomes) -> Row:
    """What its tests say of a line: it holds when each was run and none failed; what was skipped is told."""
    meant = {test: [case for case in outcomes.all if is_meant(test, case)] for test in line.tests}
    cases = sorted({case for found in meant.values() for case in found})
    wrong = [f"{case} failed" for case in cases if case in outcomes.failed]
    wrong += [f"{test} was not run" for test, found in meant.items() if not found]
    skipped = sorted({outcomes.skipped[case] for case in cases if case in outcomes.skipped})
    reasons = [f"{_NOT_TRIED}{reason}" for reason in (*skipped, line.not_tried) if reason]
    passed = [case for case in cases if case in outcomes.passed]
    seen = NOT_HELD if wrong else HELD if passed else NOT_TRIED
    return Row(line, seen, len(passed), sum(outcomes.passed[case] for case in passed), (*wrong, *reasons))


def run(lines: Iterable[Line]) -> tuple[list[Row], Outcomes]:
    """Try all tests that the lines name, those that are not long."""
    outcomes = Outcomes()
    tests = sorted({function(test) for line in lines for test in line.tests})
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider"]
    # Most tests wait for processes rather than compute.
    os.environ.setdefault("PYTEST_XDIST_AUTO_NUM_WORKERS", str(2 * (os.cpu_count() or 1)))
    workers = ["-n", "auto", "--dist", "worksteal", "--continue-on-collection-errors"]
    pytest.main([f"--rootdir={ROOT}", "-m", "not long", *quiet, *workers, *tests], plugins=[outcomes])
    return [fold(line, outcomes) for line in lines], outcomes


def table(rows: Iterable[Row]) -> str:
    return "\n".join(_told(row) for row in rows)


def _told(row: Row) -> str:
    tests = f"{row.passed:4} tests {row.seconds:6.1f} s" if row.passed else f"{'-':>19}"
    first = f"{row.line.number:4} {row.seen:9} {tests}  {row.line.injected} → {row.line.seen}"
    return "\n".join([first, *(f"{'':36}{note}" for note in row.notes)])


def main(argv: list[str]) -> int:
    began = time.monotonic()
    lines = read(Path(argv[0]).read_text())
    rows, outcomes = run(lines)
    print(table(rows))
    for words in outcomes.unreadable:
        print(f"{NOT_HELD}: {words}")
    counts = {seen: sum(row.seen == seen for row in rows) for seen in (HELD, NOT_HELD, NOT_TRIED)}
    told = ", ".join(f"{count} {seen}" for seen, count in counts.items())
    print(f"== {told}; {len(outcomes.passed)} tests in {time.monotonic() - began:.0f} s")
    return 1 if counts[NOT_HELD] or outcomes.unreadable else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
