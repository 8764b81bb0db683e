"""What the tests of a version come to, as far as it can be read from what pytest printed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.life import validation
from infra.life.validation import MOST_RETRIED, OUTPUT_LINES, Summary, last_failed, pytest_words, summary, tail
from tests.life.cell import Cell


@pytest.mark.parametrize(
    ("line", "words", "passed"),
    [
        ("123 passed in 8.10s", "123 passed in 8.10s", 123),
        ("1 failed, 22 passed in 0.05s", "1 failed, 22 passed in 0.05s", 22),
        ("2 failed in 0.05s", "2 failed in 0.05s", 0),
        ("3 passed, 4 deselected, 1 warning in 75.30s (0:01:15)", "3 passed, 4 deselected, 1 warning in 75.30s", 3),
        ("===== 5 passed, 1 skipped in 1.00s =====", "5 passed, 1 skipped in 1.00s", 5),
        ("1 error in 0.10s", "1 error in 0.10s", 0),
        ("7 deselected in 0.01s", "7 deselected in 0.01s", 0),
    ],
)
def test_the_summary_is_pytests_last_line(line: str, words: str, passed: int) -> None:
    """Whatever came before it."""
    assert summary(f"....F..  [100%]\n1 passed in a test's own output\n{line}\n") == Summary(words, passed)


def test_without_a_summary_there_is_no_evidence() -> None:
    """No tests, a crash in mid-run, nothing at all."""
    for output in ("", "no tests ran in 0.01s\n", "Fatal Python error: Segmentation fault\n", "I passed in 3s"):
        assert summary(output) is None


@given(st.text())
def test_any_output_can_be_read(output: str) -> None:
    """What a test prints can be anything."""
    found = summary(output)
    assert found is None or found.passed >= 0


def test_the_end_of_long_output_is_shown() -> None:
    """The failure stands at the end."""
    shown = tail("\n".join(f"line {number}" for number in range(1000)) + "\n\n")

    assert len(shown.splitlines()) == OUTPUT_LINES
    assert shown.endswith("line 999")


def test_many_tests_are_shared_out_and_few_are_not() -> None:
    """Heavy ones are left out in both cases."""
    assert "-n" not in pytest_words("c", share_out=False)
    assert pytest_words("c", share_out=True)[-3:] == ["-n", "auto", "tests"]
    assert "not heavy" in pytest_words("c", share_out=False)


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        (["src/x.py"], ["tests/admission", "tests/models", "tests/supervision"]),
        (["infra/life/unit.py", "infra/watcher.py"], ["tests/admission", "tests/models"]),
        (["infra/models/prices.py"], ["tests/admission", "tests/supervision"]),
        (["tests/admission/test_decide.py", "infra/git_door.py"], ["tests/models", "tests/supervision"]),
        (["infra/contract/comms.py"], []),
    ],
)
def test_tests_of_the_keep_are_run_by_who_changed_it(changed: list[str], left_out: list[str]) -> None:
    """The keep's own tests are left out, unless the version changed the keep or what it shares with the cell."""
    present = ["__init__.py", "life", "models", "supervision"]
    assert validation.not_concerned(changed, present) == left_out
    assert validation.not_concerned(changed, ["__init__.py", "models", "supervision"]) == []


ONCE = """
import pathlib
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_a_dice(number):
    mark = pathlib.Path(__file__).with_name(f"mark{{number}}")
    if not mark.exists():
        mark.touch()
        assert False, "the first time"

def test_sound():
    pass
"""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("content", "fit", "words"),
    [
        (ONCE.format(count=1), True, "1 failed, 1 passed in .*; once more and alone: 1 passed.* in .*test_a_dice.0"),
        (ONCE.format(count=MOST_RETRIED), True, f"{MOST_RETRIED} failed, 1 passed in .*: {MOST_RETRIED} passed"),
        (ONCE.format(count=MOST_RETRIED + 1), False, f"the test run: {MOST_RETRIED + 1} failed, 1 passed in "),
        ("def test_wrong():\n    assert 1 == 2\n", False, "the test run: 1 failed in "),
        ("import nothing_of_this_kind\n", False, "the test run: 1 error in "),
        (
            ONCE.format(count=1).replace("assert False", "import os; os._exit(1)"),
            False,
            "the test run ended with status 1",
        ),
    ],
)
def test_a_few_that_fail_have_a_second_chance(cell: Cell, content: str, fit: bool, words: str) -> None:
    """Alone; what fails again, cannot be collected or ends the run has none, and the evidence says what happened."""
    cell.branch("improve", {"src/notes.md": "better\n", "tests/test_body.py": content})
    home = cell.home()
    home = home._replace(boot=cell.boot("improve"), checkout=cell.places.checkout("improve"))
    os.makedirs(f"{home.checkout}/logs", exist_ok=True)

    verdict = validation.judge(home, cell.main())

    assert verdict.fit is fit, verdict
    assert re.match(words, verdict.words), verdict.words
    assert os.listdir(f"{home.checkout}/logs") == ["validation.log"]


def test_a_cache_that_says_nothing_names_no_test(tmp_path: Path) -> None:
    """It is the version's own pytest that writes it."""
    assert last_failed(str(tmp_path)) == []
    (tmp_path / "v/cache").mkdir(parents=True)
    for content in ("", "[1]", "{", "7"):
        (tmp_path / "v/cache/lastfailed").write_text(content)
        assert last_failed(str(tmp_path)) == []
