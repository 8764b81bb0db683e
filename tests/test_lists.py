"""The lists of faults and attacks are whole: every number, each with a test that is there or a reason; and what their
tests say is folded back to the numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lists import ATTACKS, FAULTS, HELD, NOT_HELD, NOT_TRIED, ROOT, Line, Outcomes, fold, is_meant, read

NUMBERS = {
    FAULTS: [
        *(f"F{number:02}" for number in range(1, 89)),
        *(f"P{number}" for number in range(1, 10)),
        *(f"D{number}" for number in range(1, 14)),
    ],
    ATTACKS: [f"S{number:02}" for number in range(1, 66)],
}


@pytest.mark.parametrize("page", NUMBERS, ids=lambda page: page.name)
def test_every_number_is_there_once_with_a_test_or_a_reason(page: Path) -> None:
    """In order; a line without either would claim something that nobody looks at."""
    lines = read(page.read_text())
    assert [line.number for line in lines] == NUMBERS[page]
    assert [line.number for line in lines if not line.tests and len(line.not_tried) < 40] == []


@pytest.mark.timeout(300)
def test_each_test_of_a_line_is_one_that_is_run(request: pytest.FixtureRequest) -> None:
    """Collected by pytest, with the cases that are named, and not left out as long."""
    named = {test for page in NUMBERS for line in read(page.read_text()) for test in line.tests}
    cases = {item.nodeid for item in request.session.items}
    if missing := _missing(named, cases):  # perhaps only a part of the tests is being run
        # By whole files, and those that are there: for one unknown name pytest collects nothing at all.
        files = {file for test in missing if (ROOT / (file := test.partition("::")[0])).exists()}
        words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not long", "-p", "no:cacheprovider"]
        found = subprocess.run([*words, *sorted(files)], cwd=ROOT, capture_output=True, text=True)
        cases |= set(found.stdout.splitlines())
    assert _missing(named, cases) == []


def _missing(named: set[str], cases: set[str]) -> list[str]:
    return sorted(test for test in named if not any(is_meant(test, case) for case in cases))


PAGE = """# A page

- **F01** one thing is injected,
  in two lines → it is seen.
  - `tests/a/test_a.py::test_one`
  - `tests/a/test_a.py::test_two[S01*]`
- **F02** another → nothing.
  - not tried: there is no
    such machine.

Other words.
"""


def test_a_page_is_read() -> None:
    """Wrapped lines, tests, cases and reasons."""
    first, second = read(PAGE)
    assert first == Line(
        *("F01", "one thing is injected, in two lines", "it is seen."),
        ("tests/a/test_a.py::test_one", "tests/a/test_a.py::test_two[S01*]"),
        "",
    )
    assert second == Line("F02", "another", "nothing.", (), "there is no such machine.")
    for wrong in (PAGE.replace("→", "->"), PAGE.replace("`tests/a/test_a.py::test_one`", "somewhere")):
        with pytest.raises(ValueError, match="F01: expected"):
            read(wrong)


@pytest.mark.parametrize(
    ("outcomes", "seen", "note"),
    [
        (Outcomes(passed={"a.py::test_a[x]": 1.0, "a.py::test_a[y]": 1.0}), HELD, ""),
        (Outcomes(passed={"a.py::test_a[x]": 1.0}, failed={"a.py::test_a[y]": "no"}), NOT_HELD, "test_a[y] failed"),
        (Outcomes(passed={"a.py::test_a[x]": 1.0}, skipped={"a.py::test_a[y]": "no disk"}), HELD, "no disk"),
        (Outcomes(skipped={"a.py::test_a": "no disk"}), NOT_TRIED, "no disk"),
        (Outcomes(passed={"a.py::test_another": 1.0}), NOT_HELD, "was not run"),
    ],
)
def test_a_line_holds_when_all_its_tests_do(outcomes: Outcomes, seen: str, note: str) -> None:
    """One that failed or was not even run is none that held; what was skipped is told."""
    row = fold(Line("F01", "a", "b", ("a.py::test_a",), ""), outcomes)
    assert row.seen == seen
    assert note in " ".join(row.notes)


def test_cases_are_meant_by_their_beginning() -> None:
    """And a test without cases means all of them, but no other test."""
    assert is_meant("a.py::test_a[S01*]", "a.py::test_a[S01 x]")
    assert not is_meant("a.py::test_a[S01*]", "a.py::test_a[S02 x]")
    assert is_meant("a.py::test_a", "a.py::test_a[1]")
    assert not is_meant("a.py::test_a", "a.py::test_ab")
    assert not is_meant("a.py::test_a[1]", "a.py::test_a[2]")
