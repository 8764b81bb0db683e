"""Approvals: what the PM answers under Directives, and how a question stands by that. Pure.

The question itself is a record of the keep's; the page shows it and is never read back for it. An answer is a directive
that says `approve ID` or `deny ID: why`, and nothing else."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from infra.shared import comms
from infra.shared.branches import version

ID_DIGITS = 16
_QUESTION = re.compile(r"\s*approval\s+wanted", re.IGNORECASE)
State = Literal["waiting", "approved", "denied", "over"]
"""Over: its answer was ticked or struck, and no longer applies."""


class Decision(NamedTuple):
    """The PM's answer for one call."""

    id: str
    approved: bool
    why: str


def call_hash(tool: str, given: Mapping[str, Any]) -> str:
    """SHA-256 of the call, 64 hex digits; the same for the same arguments in any order."""
    return hashlib.sha256(json.dumps([tool, given], sort_keys=True).encode()).hexdigest()


def title(branch: str, commit: str, id: str, tool: str) -> str:
    """Of the report that asks."""
    return f"{version(branch, commit)} approval wanted [{id}]: {tool}"


def agents_title(title: str) -> str:
    """The title of a report of the agent's, which must not pass for one in which the keep asks."""
    return _QUESTION.sub(lambda found: f"'{found[0].strip()}'", title, count=1) if _QUESTION.match(title) else title


def answers_in(text: str) -> tuple[Decision, ...]:
    """The answers that a directive consists of: one, or one a line; none when it says anything else as well.

    What is added to a denial is its reason; an approval with a condition is none."""
    each = [_answer(line) for line in text.splitlines() if line.strip()]
    if all(each):
        return tuple(filter(None, each))
    whole = _answer(text)
    return (whole,) if whole and not whole.approved else ()


def _answer(text: str) -> Decision | None:
    match = comms.ANSWER.fullmatch(text.strip())
    decision = match and Decision(match["id"].lower(), match["word"].lower() == "approve", match["rest"].strip())
    return None if not decision or (decision.approved and decision.why) else decision


def open_answers(document: str) -> dict[str, Decision]:
    """The PM's current answers by id; of an approval and a denial of the same call, the denial. Raises CommsError."""
    found = [answer for each in comms.open_directives(document) for answer in answers_in(each.text)]
    return {answer.id: answer for answer in sorted(reversed(found), key=lambda each: not each.approved)}


def state_of(document: str, id: str) -> tuple[State, str]:
    """How the question with this id stands, with the reason of a denial. Raises CommsError."""
    if answer := open_answers(document).get(id):
        return ("approved" if answer.approved else "denied"), answer.why
    done = [each.text.replace("~~", "") for each in comms.directives(document) if each.done]
    return ("over" if id in {answer.id for text in done for answer in answers_in(text)} else "waiting"), ""
