"""Open questions: which are open, and that an answer changes nothing else."""

from __future__ import annotations

from hypothesis import given

from infra.shared.mind.questions import new_question, open_questions, with_answer
from tests.shared.texts import any_text

LIST = """# Open questions
- Q-0001: How?
- [x] Q-0002: done
- [ ] Q-0003 What
  of it?
- Q-0004: answered
  - Answer (2026-01-31, run r): so
- Q-0001: again
- no id
"""


def test_questions_without_an_answer_are_open() -> None:
    """By their id, of which the first counts; what is indented belongs to one."""
    assert [each[:2] for each in open_questions(LIST)] == [("Q-0001", "How?"), ("Q-0003", "What\nof it?")]


def test_a_question_says_what_it_needs() -> None:
    """One of the three words behind its number, which is its label; any other is part of what it asks."""
    text = "- Q-1 (web): How?\n- [ ] Q-2(tools) How?\n- Q-3 (skills). How?\n- Q-4 (WEB): How?\n- Q-5: How (web)?\n"
    found = [(each.label, each.text) for each in open_questions(text)]
    parts = [(f"exploration/{part}", "How?") for part in ("web", "tools", "skills")]
    assert found == [*parts, ("exploration", "(WEB): How?"), ("exploration", "How (web)?")]
    assert new_question("- Q-1: How?\n", "- Q-1 (web): How?\n") == "Q-1", "another mark is another question"


def test_a_question_behind_another_of_its_number_is_new_too() -> None:
    """It is open once the first is gone, which nobody takes for a question asked."""
    before = "- Q-1: How?\n"
    assert new_question(before, f"{before}- Q-1 (web): What does evil say?\n") == "Q-1"
    shadowed = f"{before}- Q-1: Where?\n"
    assert new_question(shadowed, shadowed) == ""
    assert new_question(shadowed, "- Q-1: Where?\n") == "Q-1"
    answered = with_answer(shadowed, "Q-1", "So.", "d", "r")
    assert new_question(shadowed, answered) == ""


def test_an_answer_from_the_web_says_so() -> None:
    """With the origins, which cannot begin a line."""
    text = with_answer("- Q-1 (web): How?\n", "Q-1", "So.", "d", "r", ("https://a.example", "b\n- Q-2: x"))
    assert text == "- Q-1 (web): How?\n  - Answer (d, run r, read from the web: https://a.example, b - Q-2: x): So.\n"


def test_an_answer_stands_below_its_question_on_one_line() -> None:
    """Words of the model begin no item of their own; an unknown question changes nothing."""
    text = with_answer(LIST, "Q-0003", "So.\n- Q-0009: more", "2026-01-31", "r")

    assert "  of it?\n  - Answer (2026-01-31, run r): So. - Q-0009: more\n- Q-0004" in text
    assert [each.id for each in open_questions(text)] == ["Q-0001"]
    assert with_answer(LIST, "Q-0009", "x", "d", "r") == LIST


@given(any_text())
def test_any_file_is_read_and_keeps_all_its_words(text: str) -> None:
    """Whatever it holds."""
    for question in open_questions(f"{text}\n- Q-0001: How?\n{text}"):
        assert question.id.startswith("Q-")
    whole = f"{text}\n- Q-0001: How?"
    assert with_answer(whole, "Q-0001", "so", "d", "r").replace("\n  - Answer (d, run r): so", "") == whole
