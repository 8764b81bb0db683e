"""The request `ask`: may this call be made?

The question is recorded before anybody sees it, and its id is drawn here, so an answer under Directives stands for
that one record and nothing else: not for another call, and not for the same call asked about at another time."""

from __future__ import annotations

import json
import os
import secrets
from typing import Literal

from infra.keep import questions
from infra.keep.depth import MAX_LEVELS, is_too_deep
from infra.keep.git_door.context import DoorContext, later, refused
from infra.keep.known_secrets import read_known
from infra.keep.questions import MOST_OPEN, Question
from infra.keep.repository.page import reported, write_reports
from infra.keep.taint import Taint, line_under_report
from infra.shared import approvals, comms
from infra.shared.approvals import ID_DIGITS, State
from infra.shared.branches import MAIN, problem_with_branch
from infra.shared.clock import timestamp
from infra.shared.door import Failure
from infra.shared.files import sync_directory, write_whole
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.page_text import PAGE, ReportEntry
from infra.shared.repository.tip import TipBusy, read_file
from infra.shared.requests import Ask, QuestionState
from infra.shared.secret_shapes import redacted, redacted_and_cut, redacted_value

SHOWN_CHARS = 4000
"""Of the arguments on the page, which stands in every prompt."""
WHY_CHARS = 300


_SAID: dict[State, Literal["approved", "denied"]] = {State.APPROVED: "approved", State.DENIED: "denied"}


def ask(context: DoorContext, request: Ask, taint: Taint | None = None) -> QuestionState | Failure:
    """Not for two threads at once, nor beside a report."""
    if is_too_deep(dict(request.input)):
        return refused(f"the arguments are nested over {MAX_LEVELS} levels deep")
    if problem := problem_with_branch(request.branch):
        return refused(problem)
    git = context.git()
    try:
        page = comms.with_sections(read_file(git, f"refs/heads/{MAIN}", PAGE) or "")
        held = _still_open(context, page)
        question = next((each for each in held if each.is_about(request.tool, request.input)), None)
        if question is None and len(held) >= MOST_OPEN:
            return refused(f"{MOST_OPEN} calls wait for the PM's answer already, and no more are asked about")
        if question is None:
            question = _new(request, timestamp(context.wall_seconds()))
            _keep(context, question)
            context.log.info("approval.asked", id=question.id, tool=question.tool)
        _show(context, git, question, line_under_report(taint))
        state, why = approvals.states(page, (question.id,))[question.id]
        return QuestionState(question.id, _SAID.get(state, "waiting"), why)
    except (GitError, TipBusy, OSError, ValueError) as error:
        context.log.warning("approval.not_asked", tool=request.tool, reason=redacted_and_cut(str(error), 1000))
        return later(f"the PM could not be asked: {error}")


def close_questions(context: DoorContext) -> None:
    """The work is done: its questions are over, and an answer to them answers nothing any more."""
    try:
        _remove(context, _held(context))
    except OSError as error:
        context.log.error("approvals.not_closed", reason=str(error))


def _held(context: DoorContext) -> list[Question]:
    """The recorded questions, oldest first. A file that holds none is passed over and logged: its call is asked about
    again. Raises OSError."""
    directory, found = context.places.questions, list[Question]()
    names = sorted(filter(questions.is_file_name, os.listdir(directory))) if os.path.isdir(directory) else []
    for name in names:
        try:
            with open(os.path.join(directory, name), "rb") as file:
                found.append(questions.decode(file.read(questions.MOST_BYTES), name))
        except (OSError, ValueError) as error:
            context.log.error("question.not_readable", file=name, error=str(error))
    return sorted(found, key=lambda question: question.asked_at)


def _keep(context: DoorContext, question: Question) -> None:
    """On the disk when this returns. Raises OSError."""
    os.makedirs(context.places.questions, mode=0o700, exist_ok=True)
    path = os.path.join(context.places.questions, questions.file_name(question.id))
    write_whole(path, questions.encode(question), mode=0o600)


def _remove(context: DoorContext, removed: list[Question]) -> None:
    """Raises OSError."""
    for question in removed:
        os.unlink(os.path.join(context.places.questions, questions.file_name(question.id)))
    if removed:
        sync_directory(context.places.questions)


def _still_open(context: DoorContext, page: str) -> list[Question]:
    """The questions whose answer has not been ticked or struck; the others go. Raises OSError."""
    held = _held(context)
    states = approvals.states(page, tuple(question.id for question in held))
    _remove(context, [question for question in held if states[question.id][0] is State.OVER])
    return [question for question in held if states[question.id][0] is not State.OVER]


def _new(request: Ask, now: str) -> Question:
    return Question(
        id=secrets.token_hex(ID_DIGITS // 2),
        call=approvals.call_hash(request.tool, request.input),
        tool=request.tool,
        input=dict(request.input),
        why=request.why,
        branch=request.branch,
        commit=request.commit,
        asked_at=now,
    )


def _show(context: DoorContext, git: Git, question: Question, record: str) -> None:
    """Put it onto the page; once, whenever we are killed. Raises GitError, TipBusy, OSError."""
    if question.id in reported(git, AGENT):
        return
    title = approvals.title(question.branch, question.commit, question.id, question.tool)
    known = read_known(context.places.secrets)
    text = redacted(_text(question, known), known)
    entry = ReportEntry(question.asked_at, redacted(title, known), "", "\n\n".join(filter(None, (text, record))))
    write_reports(git, f"approval wanted [{question.id}]", [entry], [question.id], ())


def _text(question: Question, known: tuple[bytes, ...]) -> str:
    """What the page shows of it: keys left out and long arguments cut, and both are said, as either may hide what the
    call does."""
    call = _printable(redacted(json.dumps(redacted_value(question.input)), known))
    more = len(call) - SHOWN_CHARS
    cut = f"\n\n{more} characters more: `minifram approve` without an ID shows all." if more > 0 else ""
    if call != json.dumps(question.input):
        cut += (
            "\n\n**Not all of this call is shown**: what looks like a key is replaced by `[secret]`. `minifram approve`"
            " without an ID names the file that has the whole call."
        )
    why = redacted_and_cut(_printable(" ".join(question.why.split())), WHY_CHARS, known)
    return (
        f"Write `approve {question.id}` under Directives, or `deny {question.id}: why`, or use `minifram approve "
        f"{question.id}`. Until then the work waits. Asked because of: {why}\n\n"
        f"    {call[:SHOWN_CHARS]}{cut}\n\nSHA-256 of the call: {question.call}"
    )


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
