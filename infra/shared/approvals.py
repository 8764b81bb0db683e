"""Approvals: what the PM answers under Directives, and how a question stands by that. Pure.

The question itself is a record of the keep's (`shared.questions`); the page shows it and is never read back for it.
An answer is a directive that says `approve ID` or `deny ID: why`, and nothing else."""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from infra.shared import comms
from infra.shared.report_titles import version

ID_DIGITS = 16
_QUESTION = re.compile(r"\s*approval\s+wanted", re.IGNORECASE)


class State(enum.Enum):
    """The state of a question."""

    WAITING = "waiting"
    APPROVED = "approved"
    DENIED = "denied"
    OVER = "over"
    """Its answer was ticked or struck, and no longer applies."""


class Decision(NamedTuple):
    """The PM's answer for one call."""

    id: str
    approved: bool
    why: str
    line: str
    """Id of the directive that says it."""


def call_hash(tool: str, given: Mapping[str, Any]) -> str:
    """SHA-256 of the call, 64 hex digits; the same for the same arguments in any order."""
    return hashlib.sha256(json.dumps([tool, given], sort_keys=True).encode()).hexdigest()


def title(branch: str, commit: str, id: str, tool: str) -> str:
    """Of the report that asks."""
    return f"{version(branch, commit)} approval wanted [{id}]: {tool}"


def agents_title(title: str) -> str:
    """The title of a report of the agent's, which must not pass for one in which the keep asks."""
    match = _QUESTION.match(title)
    return f"'{match[0].strip()}'{title[match.end() :]}" if match else title


def answers_in(directive: comms.Directive) -> tuple[Decision, ...]:
    """The answers that a directive consists of: one, or one a line; none when it says anything else as well.

    What is added to a denial is its reason; an approval with a condition is none."""
    lines = [line.strip() for line in directive.text.splitlines() if line.strip()]
    each = [_answer(line, directive.id) for line in lines]
    if all(each):
        return tuple(answer for answer in each if answer)
    whole = _answer(directive.text, directive.id)
    return (whole,) if whole and not whole.approved else ()


def _answer(text: str, line: str) -> Decision | None:
    match = comms.ANSWER.fullmatch(text.strip())
    if match is None:
        return None
    approved, rest = match["word"].lower() == "approve", match["rest"].strip()
    return None if approved and rest else Decision(match["id"].lower(), approved, rest, line)


def open_answers(document: str) -> dict[str, Decision]:
    """The PM's current answers by id; of an approval and a denial of the same call, the denial. Raises CommsError."""
    found: dict[str, Decision] = {}
    for directive in comms.open_directives(document):
        for answer in answers_in(directive):
            if answer.id not in found or found[answer.id].approved:
                found[answer.id] = answer
    return found


def answer_lines(document: str) -> set[str]:
    """Ids of the open directives that are answers, not work. Raises CommsError."""
    return {directive.id for directive in comms.open_directives(document) if answers_in(directive)}


def states(document: str, ids: tuple[str, ...]) -> dict[str, tuple[State, str]]:
    """The state of the questions with these ids, with the reason of a denial. Raises CommsError."""
    now = open_answers(document)
    done = [item for item in comms.directives(document) if item.done]
    over = {answer.id for item in done for answer in answers_in(item._replace(text=item.text.replace("~~", "")))}

    def state(id: str) -> tuple[State, str]:
        if id in now:
            return (State.APPROVED, "") if now[id].approved else (State.DENIED, now[id].why)
        return (State.OVER if id in over else State.WAITING), ""

    return {id: state(id) for id in ids}
