"""The lists of faults and attacks, and the tests that show their lines: `python -m tests.lists spec/FAULTS.md`.

Each line of a page has a number, what is injected and what must be seen. A test names the lines that it shows:
`@pytest.mark.fault("F05")`, `@pytest.mark.attack("S05", "S06")`. The tests of a page are run, each once, and what
became of them is told by number. Ends with 1 when a line does not hold."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FAULTS, ATTACKS = ROOT / "spec/FAULTS.md", ROOT / "spec/ATTACKS.md"
MARKS = {FAULTS: "fault", ATTACKS: "attack"}

_LINE = re.compile(r"^- \*\*(?P<number>[A-Z]\d+)\*\* (?P<words>.+)$", re.MULTILINE)
_REASON = re.compile(r" (?=Not (?:tried|held): )")
_TELL_SECONDS = 15.0


class Line(NamedTuple):
    """One fault or attack."""

    number: str
    injected: str
    seen: str
    """What must be seen."""
    reason: str = ""
    """`Not tried: …` or `Not held: …`: why it, or a part of it, is not shown here."""


def read(page: str) -> list[Line]:
    """The lines of a page, in their order. Raises ValueError for one that is none."""
    return [_line(found["number"], found["words"]) for found in _LINE.finditer(page)]


def _line(number: str, words: str) -> Line:
    said, *reason = _REASON.split(words, maxsplit=1)
    injected, _, seen = said.partition(" → ")
    if not injected or not seen:
        raise ValueError(f"{number}: expected 'what is injected → what must be seen' in one line, found {words!r}")
    return Line(number, injected, seen, *reason)


class Marked:
    """The tests that are marked, by the number that they show; a plugin of pytest's."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self.tests: dict[str, list[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            for mark in item.iter_markers(self._mark):
                for number in mark.args:
                    self.tests.setdefault(number, []).append(item.nodeid)


def marked(page: Path) -> dict[str, list[str]]:
    """The tests that show each number, as pytest names them, those that are not long. Raises RuntimeError when the
    tests cannot be read."""
    words = [sys.executable, "-m", "tests.lists", "--marked", MARKS[page]]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if found.returncode:
        raise RuntimeError(f"the tests could not be read:\n{found.stdout}{found.stderr}")
    tests: dict[str, list[str]] = json.loads(found.stdout)
    return tests


def _tell_marked(mark: str) -> int:
    """As JSON on the output, which pytest leaves alone."""
    files = [str(path) for path in ROOT.glob("tests/**/test_*.py") if f"pytest.mark.{mark}(" in path.read_text()]
    plugin = Marked(mark)
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "--collect-only"]
    status = pytest.main([f"--rootdir={ROOT}", "-m", "not long", *quiet, *files], plugins=[plugin])
    print(json.dumps(plugin.tests))
    return int(status)


@dataclass
class Outcomes:
    """What became of each test; a plugin of pytest's."""

    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    passed: dict[str, float] = field(default_factory=dict)
    """With how long it took."""
    _told: float = field(default_factory=time.monotonic)

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


def fold(line: Line, tests: Iterable[str], outcomes: Outcomes) -> Row:
    """What its tests say of a line: it holds when each was run and none failed; what was skipped is told."""
    cases = sorted(tests)
    wrong = [f"{case} failed" for case in cases if case in outcomes.failed]
    ran = outcomes.failed.keys() | outcomes.skipped.keys() | outcomes.passed.keys()
    wrong += [f"{case} was not run" for case in cases if case not in ran]
    skipped = sorted({f"not tried: {outcomes.skipped[case]}" for case in cases if case in outcomes.skipped})
    passed = [case for case in cases if case in outcomes.passed]
    seen = NOT_HELD if wrong else HELD if passed else NOT_TRIED
    notes = (*wrong, *skipped, *([line.reason] if line.reason else []))
    return Row(line, seen, len(passed), sum(outcomes.passed[case] for case in passed), notes)


def run(tests: dict[str, list[str]]) -> Outcomes:
    """Try all of them, each once."""
    outcomes = Outcomes()
    names = sorted({case.partition("[")[0] for cases in tests.values() for case in cases})
    quiet = ["-p", "no:terminal", "-p", "no:cacheprovider"]
    # Most tests wait for processes rather than compute.
    os.environ.setdefault("PYTEST_XDIST_AUTO_NUM_WORKERS", str(2 * (os.cpu_count() or 1)))
    workers = ["-n", "auto", "--dist", "worksteal"]
    pytest.main([f"--rootdir={ROOT}", "-m", "not long", *quiet, *workers, *names], plugins=[outcomes])
    return outcomes


def told(row: Row) -> str:
    tests = f"{row.passed:4} tests {row.seconds:6.1f} s" if row.passed else f"{'-':>19}"
    first = f"{row.line.number:4} {row.seen:9} {tests}  {row.line.injected} → {row.line.seen}"
    return "\n".join([first, *(f"{'':36}{note}" for note in row.notes)])


def main(argv: list[str]) -> int:
    if argv[0] == "--marked":
        return _tell_marked(argv[1])
    began = time.monotonic()
    page = Path(argv[0]).resolve()
    tests = marked(page)
    outcomes = run(tests)
    rows = [fold(line, tests.get(line.number, ()), outcomes) for line in read(page.read_text())]
    print("\n".join(told(row) for row in rows))
    counts = {seen: sum(row.seen == seen for row in rows) for seen in (HELD, NOT_HELD, NOT_TRIED)}
    words = ", ".join(f"{count} {seen}" for seen, count in counts.items())
    print(f"== {words}; {len(outcomes.passed)} tests in {time.monotonic() - began:.0f} s")
    return 1 if counts[NOT_HELD] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
