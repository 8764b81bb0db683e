"""The lists of faults and attacks are whole: every number, each shown by a test that is run or with a reason; and what
the tests say is folded back to the numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lists import ATTACKS, FAULTS, HELD, NOT_HELD, NOT_TRIED, Line, Outcomes, fold, marked, read

NUMBERS = {
    FAULTS: [
        *(f"F{number:02}" for number in range(1, 89)),
        *(f"P{number}" for number in range(1, 10)),
        *(f"D{number}" for number in range(1, 14)),
    ],
    ATTACKS: [f"S{number:02}" for number in range(1, 70)],
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", NUMBERS, ids=lambda page: page.name)
def test_every_number_is_there_once_with_a_test_or_a_reason(page: Path) -> None:
    """In order; a line without either would claim something that nobody looks at, and so would a test's mark."""
    lines = read(page.read_text())
    tests = marked(page)
    assert [line.number for line in lines] == NUMBERS[page]
    assert [line.number for line in lines if line.number not in tests and len(line.reason) < 40] == []
    assert sorted(tests.keys() - {line.number for line in lines}) == []


PAGE = """# A page

- **F01** one thing is injected → it is seen.
- **F02** another → nothing. Not tried: there is no such machine. Not held: a part.

Other words.
"""


def test_a_page_is_read() -> None:
    first, second = read(PAGE)
    assert first == Line("F01", "one thing is injected", "it is seen.")
    assert second == Line("F02", "another", "nothing.", "Not tried: there is no such machine. Not held: a part.")
    with pytest.raises(ValueError, match="F01: expected"):
        read(PAGE.replace("→", "->"))


@pytest.mark.parametrize(
    ("outcomes", "seen", "note"),
    [
        (Outcomes(passed={"a.py::test_a[x]": 1.0, "a.py::test_a[y]": 1.0}), HELD, ""),
        (Outcomes(passed={"a.py::test_a[x]": 1.0}, failed={"a.py::test_a[y]": "no"}), NOT_HELD, "test_a[y] failed"),
        (Outcomes(passed={"a.py::test_a[x]": 1.0}, skipped={"a.py::test_a[y]": "no disk"}), HELD, "no disk"),
        (Outcomes(skipped={"a.py::test_a[x]": "no disk", "a.py::test_a[y]": "no disk"}), NOT_TRIED, "no disk"),
        (Outcomes(passed={"a.py::test_a[x]": 1.0}), NOT_HELD, "test_a[y] was not run"),
    ],
)
def test_a_line_holds_when_all_its_tests_do(outcomes: Outcomes, seen: str, note: str) -> None:
    """One that failed or was not even run is none that held; what was skipped is told."""
    row = fold(Line("F01", "a", "b"), ["a.py::test_a[x]", "a.py::test_a[y]"], outcomes)
    assert row.seen == seen
    assert note in " ".join(row.notes)
