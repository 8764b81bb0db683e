"""`reflection/open_questions.md`: what the agent would like to know, as a list: `- Q-0001: How …?`. One that needs more
than the cell has says what: `- Q-0002 (web): …`, `(tools)` or `(skills)`. An answer stands below its question. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from infra.shared.conversation import EXPLORATION, EXPLORATION_PARTS
from infra.shared.text import cut, plain

MOST_BYTES = 1 << 20
ANSWER_CHARS = 2000
QUESTION_ID = re.compile(r"Q-[0-9]{1,9}")
_ITEM = re.compile(
    rf"[-*] (?:\[(?P<box>[ xX])\] )?(?P<id>{QUESTION_ID.pattern})"
    rf"(?:[ \t]*\((?P<part>{'|'.join(EXPLORATION_PARTS)})\))?[:.]?[ \t]+(?P<text>\S.*)"
)
_ANSWER = re.compile(r"[ \t]+[-*] Answer\b")


class OpenQuestion(NamedTuple):
    id: str
    text: str
    part: str = ""
    """What it needs: one of EXPLORATION_PARTS; empty for nothing more."""

    @property
    def label(self) -> str:
        """Of the requests of a run on it."""
        return f"{EXPLORATION}/{self.part}" if self.part else EXPLORATION


def open_questions(text: str) -> list[OpenQuestion]:
    """Those without an answer, oldest first; of two with one id the first counts."""
    found: dict[str, tuple[OpenQuestion, bool]] = {}
    for question, is_open in _questions(text):
        found.setdefault(question.id, (question, is_open))
    return [question for question, is_open in found.values() if is_open]


def new_question(before: str, after: str) -> str:
    """The id of the first open question that is not open so in `before`, or that stands behind another of its id and
    did not: it would be open without the first. Empty when there is none."""
    known, stood = set(map(_in_words, open_questions(before))), set(_unanswered(before))
    asked = (each for each in map(_in_words, open_questions(after)) if each not in known)
    behind = (each for each in _unanswered(after) if each not in stood)
    return next((each.id for each in (*asked, *behind)), "")


def _unanswered(text: str) -> Iterator[OpenQuestion]:
    """Whether they count or not."""
    return (_in_words(question) for question, is_open in _questions(text) if is_open)


def _questions(text: str) -> Iterator[tuple[OpenQuestion, bool]]:
    """Each, and whether it has no answer."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if match := _ITEM.fullmatch(line.rstrip()):
            below = lines[at + 1 : _end(lines, at)]
            answered = match["box"] in ("x", "X") or any(map(_ANSWER.match, below))
            words = "\n".join([match["text"], *(each.strip() for each in below)]).strip()
            yield OpenQuestion(match["id"], words, match["part"] or ""), not answered


def _in_words(question: OpenQuestion) -> OpenQuestion:
    return question._replace(text=" ".join(question.text.split()))


def with_answer(text: str, id: str, answer: str, day: str, run: str, origins: Sequence[str] = ()) -> str:
    """With an answer below the question, which says when it comes from pages of these origins; all else stays byte for
    byte. The same text when there is no such question."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        match = _ITEM.fullmatch(line.rstrip())
        if match and match["id"] == id:
            words = " ".join(plain(cut(answer, ANSWER_CHARS)).split())
            end = _end(lines, at)
            while end > at + 1 and not lines[end - 1].strip():
                end -= 1
            read = f", read from the web: {' '.join(plain(cut(', '.join(origins), 200)).split())}" if origins else ""
            return "\n".join([*lines[:end], f"  - Answer ({day}, run {run}{read}): {words}", *lines[end:]])
    return text


def _end(lines: list[str], at: int) -> int:
    """One past the last line of the item at `at`: what is indented below it."""
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][0] in " \t"):
        end += 1
    return end
