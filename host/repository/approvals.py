"""The PM's answers to what the agent asks: a line under Directives for each, as a commit of the PM's.

What an answer is for is read from the keep's record, never from the page."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from host.display import harmless, one_line
from host.errors import conflict, not_found
from host.paths import AgentPaths
from host.repository.comms import Directive, add_directive
from host.repository.review import main_commit, page_at
from infra.shared import approvals, comms, questions
from infra.shared.approvals import State
from infra.shared.questions import Question
from infra.shared.report_titles import version
from infra.shared.repository.git import Git
from infra.shared.safe_files import whole_file
from infra.shared.secret_shapes import redacted, redacted_value

SHOWN_CHARS = 8000
"""Of one call; where the rest is, is said."""
MOST_FILES = 1000


class Asking(NamedTuple):
    """A call of the agent's that waits for the PM's word."""

    id: str
    tool: str
    at: str
    call: str
    """Its arguments as JSON on one line."""
    version: str
    """`branch@commit` that asks, as its runner says."""
    why: str


def waiting(home: AgentPaths, page: str) -> list[Asking]:
    """What waits for the PM, oldest first. Raises CommsError, OSError, and ValueError for a record that is none."""
    held = _held(home)
    states = approvals.states(page, tuple(question.id for question in held))
    return [_asking(home, question) for question in held if states[question.id][0] is State.WAITING]


def listed(git: Git, home: AgentPaths) -> list[Asking]:
    """What waits on main now. Raises CommandError."""
    return _look(git, home)[1]


def answer(git: Git, home: AgentPaths, id: str, approved: bool, why: str = "") -> tuple[Directive, Asking]:
    """Write `approve ID` or `deny ID: why`. Raises CommandError for an id that waits for no answer."""
    id = id.strip("[]`").lower()
    said, found = _look(git, home)
    if id in said:
        now = "approved" if said[id].approved else "denied"
        raise conflict(f"call {id} is {now} already; to change that, edit the line in COMMS.md")
    asking = next((each for each in found if each.id == id), None)
    if asking is None:
        known = ", ".join(f"{each.id} ({one_line(each.tool, 40)})" for each in found) or "nothing"
        raise not_found(f"no call with id {one_line(id, 40)} waits for an answer; waiting: {known}")
    words = " ".join(why.split())
    text = f"approve {id}" if approved else f"deny {id}" + (f": {words}" if words else "")
    return add_directive(git, text), asking


def _look(git: Git, home: AgentPaths) -> tuple[dict[str, approvals.Decision], list[Asking]]:
    """What the PM says now, and what waits for it. Raises CommandError."""
    page = page_at(git, main_commit(git))
    try:
        return approvals.open_answers(page), waiting(home, page)
    except comms.CommsError as error:
        raise not_found(f"{error}; nothing was answered") from None
    except ValueError as error:
        raise conflict(f"{error}; nothing was answered") from None


def shown(asking: Asking) -> list[str]:
    """The call, for the screen."""
    whose = f"asked by {one_line(asking.version, 80)}"
    why = f", because of {one_line(asking.why, 120)}" if asking.why else ""
    return [f"{asking.id}  {one_line(asking.tool, 40)}  {whose}{why}, {one_line(asking.at, 24)}", f"  {asking.call}"]


def _held(home: AgentPaths) -> list[Question]:
    """The keep's records, oldest first. Raises OSError, ValueError."""
    directory = home.places.questions
    try:
        names = sorted(filter(questions.is_file_name, os.listdir(directory)))[:MOST_FILES]
    except FileNotFoundError:
        return []
    found = []
    for name in names:
        try:
            found.append(questions.decode(whole_file(f"{directory}/{name}", questions.MOST_BYTES), name))
        except FileNotFoundError:  # it is over since it was listed
            continue
    return sorted(found, key=lambda question: question.asked_at)


def _asking(home: AgentPaths, question: Question) -> Asking:
    whole = json.dumps(question.input)
    call = json.dumps(redacted_value(question.input))
    file = f"{home.places.questions}/{questions.file_name(question.id)}"
    # What has the shape of a key may be a program's name, so that something is left out is always said.
    left_out = "" if call == whole else f" … what looks like a key is left out; the whole call is in {file}"
    call = harmless(call)
    more = len(call) - SHOWN_CHARS
    if more > 0:
        call = f"{call[:SHOWN_CHARS]} … {more:,} characters more in {file}"
    call += left_out
    name = version(question.branch, question.commit)
    return Asking(question.id, question.tool, question.asked_at, call, name, redacted(question.why))
