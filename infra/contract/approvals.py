"""Approvals on COMMS.md: what is asked in Reports, what the PM answers in Directives. Pure.

An ask is one report; an answer is a directive that says `approve ID` or `deny ID: why`, and nothing else. The page is
all that is remembered, so that a question is neither lost nor asked twice when the runner is started anew."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from infra.contract import comms
from infra.contract.report_titles import version

_ANSWER = re.compile(
    r"(?P<word>approve|deny)\s+[`\[]?(?P<id>[0-9a-f]{8})[`\]]?(?:\s*[:,.!-]\s*|\s+|\Z)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_ASKED = re.compile(r"### (?P<at>\S+) \S+@[0-9a-f]+ approval wanted \[(?P<id>[0-9a-f]{8})\]: (?P<tool>\S+)")
_DONE = re.compile(r"### \S+ \S+@[0-9a-f]+ done: ")


class Answer(NamedTuple):
    """What the PM says of one call."""

    id: str
    approved: bool
    why: str
    line: str
    """Id of the directive that says it."""


class Asked(NamedTuple):
    """A call that the PM was asked about."""

    id: str
    tool: str
    at: str
    """Time of the report, as it says itself."""
    report: str


def call_hash(tool: str, given: Mapping[str, Any]) -> str:
    """SHA-256 of the call, 64 hex digits; the same for the same arguments, in whatever order."""
    return hashlib.sha256(json.dumps([tool, given], sort_keys=True).encode()).hexdigest()


def id_of(call_hash: str) -> str:
    """What the PM writes: the first 8 digits."""
    return call_hash[:8]


def title(branch: str, commit: str, id: str, tool: str) -> str:
    return f"{version(branch, commit)} approval wanted [{id}]: {tool}"


def answers_in(directive: comms.Directive) -> tuple[Answer, ...]:
    """The answers that a directive consists of: one, or one a line; none when it says anything else as well.

    What is added to a denial is its reason; an approval with a condition is none."""
    lines = [line.strip() for line in directive.text.splitlines() if line.strip()]
    each = [_answer(line, directive.id) for line in lines]
    if all(each):
        return tuple(answer for answer in each if answer)
    whole = _answer(directive.text, directive.id)
    return (whole,) if whole and not whole.approved else ()


def _answer(text: str, line: str) -> Answer | None:
    match = _ANSWER.fullmatch(text.strip())
    if match is None:
        return None
    approved, rest = match["word"].lower() == "approve", match["rest"].strip()
    return None if approved and rest else Answer(match["id"].lower(), approved, rest, line)


def open_answers(document: str) -> dict[str, Answer]:
    """What the PM says now, by id; of a yes and a no to the same call, the no. Raises CommsError."""
    found: dict[str, Answer] = {}
    for directive in comms.open_directives(document):
        for answer in answers_in(directive):
            if answer.id not in found or found[answer.id].approved:
                found[answer.id] = answer
    return found


def answer_lines(document: str) -> set[str]:
    """Ids of the open directives that are answers, and no work. Raises CommsError."""
    return {directive.id for directive in comms.open_directives(document) if answers_in(directive)}


def asked(document: str) -> dict[str, Asked]:
    """What the PM was asked, by id, in order: by reports since a unit of work was last done. Raises CommsError."""
    found: dict[str, Asked] = {}
    for report in comms.reports(document):
        match = _ASKED.match(report)
        if match:
            found.setdefault(match["id"], Asked(match["id"], match["tool"], match["at"], report))
        elif _DONE.match(report):
            found.clear()
    return found


def unanswered(document: str) -> list[Asked]:
    """What waits for the PM. Raises CommsError."""
    answered = open_answers(document)
    return [ask for ask in asked(document).values() if ask.id not in answered]
