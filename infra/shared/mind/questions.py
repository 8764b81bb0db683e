"""`reflection/open_questions.md`: what the agent would like to know, as a list: `- Q-0001: How …?`. An
answer stands below its question. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from infra.shared.text import cut, one_line, plain

ANSWER_CHARS = 2000
_ITEM = re.compile(
    r"^[-*] (?:\[(?P<box>[ xX])\] )?(?P<id>Q-[0-9]{1,9})"
    r"[:.]?[ \t]+(?P<text>\S.*(?:\n+[ \t].*)*)",
    re.MULTILINE,
)
"""With what is indented below it."""
_ANSWER = re.compile(r"^[ \t]+[-*] Answer\b", re.MULTILINE)


class OpenQuestion(NamedTuple):
    id: str
    text: str
    """In one line."""


def open_questions(text: str) -> list[OpenQuestion]:
    """Those without an answer, oldest first."""
    return [OpenQuestion(each["id"], one_line(each["text"])) for each in _unanswered(text)]


def new_question(before: str, after: str) -> str:
    """The id of the first question without an answer that does not stand so in `before`; empty when there is none."""
    known = open_questions(before)
    return next((each.id for each in open_questions(after) if each not in known), "")


def _unanswered(text: str) -> list[re.Match[str]]:
    every = _ITEM.finditer(text)
    return [each for each in every if each["box"] not in ("x", "X") and not _ANSWER.search(each["text"])]


def with_answer(text: str, id: str, answer: str, day: str, run: str, origins: Sequence[str] = ()) -> str:
    """With an answer below the question, which says when it comes from pages of these origins; all else stays byte for
    byte. The same text when no such question is open."""
    item = next((each for each in _unanswered(text) if each["id"] == id), None)
    if item is None:
        return text
    end = item.start() + len(item[0].rstrip())
    words = one_line(plain(cut(answer, ANSWER_CHARS)))
    read = f", read from the web: {one_line(plain(cut(', '.join(origins), 200)))}" if origins else ""
    return f"{text[:end]}\n  - Answer ({day}, run {run}{read}): {words}{text[end:]}"
