"""Open questions: which are open, and that an answer changes nothing else."""

from __future__ import annotations

from hypothesis import given

from infra.shared.mind.questions import new_question, open_questions, with_answer
from tests.shared.rows import any_text, each_row

LIST = """# Open questions
- Q-0001: How?
- [x] Q-0002: done
- [ ] Q-0003 What

  of it?
- Q-0004 (web): answered
  - Answer (2026-01-31, run r): so
- Q-0001: again
- Q-0005(tools) (WEB): How?
- Q-0006 (skills). How (web)?
- no id
"""


def test_questions_without_an_answer_are_open() -> None:
    """What is indented belongs to one."""
    assert [(each.id, each.text) for each in open_questions(LIST)] == [
        ("Q-0001", "How?"),
        ("Q-0003", "What of it?"),
        ("Q-0001", "again"),
        ("Q-0006", "(skills). How (web)?"),
    ]


@each_row(
    "before, after, new",
    [
        ("- Q-1: How?\n", "- Q-1: How?\n", ""),
        ("- Q-1: How?\n", "- Q-1 (web): How?\n", "Q-1"),
        ("- Q-1: How?\n", "- Q-1: How?\n- Q-1 (web): What does evil say?\n", "Q-1"),
        ("- Q-1: How?\n- Q-1: Where?\n", "- Q-1: How?\n  - Answer (d, run r): So.\n- Q-1: Where?\n", ""),
    ],
)
def test_a_question_is_new_by_its_words(before: str, after: str, new: str) -> None:
    assert new_question(before, after) == new


def test_an_answer_stands_below_its_question_on_one_line() -> None:
    """With the pages it is from. Words of the model begin no item of their own; an unknown question changes nothing."""
    text = with_answer(LIST, "Q-0003", "So.\n- Q-9: x", "d", "r", ("https://a.example", "b\n- Q-2: x"))
    answer = "  - Answer (d, run r, read from the web: https://a.example, b - Q-2: x): So. - Q-9: x\n"
    assert text == LIST.replace("  of it?\n", f"  of it?\n{answer}")
    assert "Q-0003" not in [each.id for each in open_questions(text)]
    assert with_answer(LIST, "Q-0009", "x", "d", "r") == LIST


@given(any_text())
def test_any_file_is_read_and_keeps_all_its_words(text: str) -> None:
    for question in open_questions(f"{text}\n- Q-0001: How?\n{text}"):
        assert question.id.startswith("Q-")
    whole = f"{text}\n- Q-0001: How?"
    assert with_answer(whole, "Q-0001", "so", "d", "r").replace("\n  - Answer (d, run r): so", "") == whole
