"""The attacks that need the whole agent, or rules that are in force already, as rows: each is a test, tried here.

`python -m tests.sealed.held` prints what holds, by which test that was seen, and ends with 1 when one did not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = ("sealed/test_seal.py", "egress/test_in_force.py", "egress/test_allowlist.py", "egress/test_before.py")
LINES = re.compile(r"\((S\d\d(?:[-,] ?S\d\d)*)\)")
"""In a module's docstring: the lines of the list of attacks that its tests are for."""


class Table:
    """A plugin of pytest's: one row for each test, once it has ended."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[str, str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        for item in items:
            lines = LINES.search(item.module.__doc__ or "")
            sentence = " ".join((item.function.__doc__ or "").split())
            self._said[item.nodeid] = (lines[1] if lines else "-", sentence)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        lines, sentence = self._said[report.nodeid]
        name = report.nodeid.rpartition("::")[2]
        held = "held" if report.passed else "NOT HELD"
        print(f"{lines:10} {held:8} {report.duration:6.1f} s  {name}\n{'':21}{sentence}", flush=True)
        if not report.passed:
            print(report.longreprtext)


def main() -> int:
    words = ["-m", "", "-p", "no:terminal", "-p", "no:cacheprovider", *(str(TESTS / name) for name in FILES)]
    return int(pytest.main(words, plugins=[Table()]))


if __name__ == "__main__":
    sys.exit(main())
