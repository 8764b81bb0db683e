"""The request `ask`: may this call be made?

The question is recorded before anybody sees it, and its id is drawn here, so an answer under Directives stands for
that one record and nothing else: not for another call, and not for the same call of another work or another time."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Container, Iterable

from infra.keep import questions
from infra.keep.git_door.context import DoorContext, later, refused
from infra.keep.known_secrets import read_known
from infra.keep.questions import MOST_OPEN, Question
from infra.keep.repository.page import reported, write_reports
from infra.keep.repository.page_text import ReportEntry
from infra.keep.taint import Taint, line_under_report
from infra.shared import approvals, comms
from infra.shared.approvals import ID_DIGITS
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.files import sync
from infra.shared.paths import PAGE
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import TipBusy, read_file
from infra.shared.requests import Ask, QuestionState
from infra.shared.secret_shapes import redacted, redacted_and_cut, redacted_value

SHOWN_CHARS = 4000
"""Of the arguments on the page, which stands in every prompt."""
WHY_CHARS = 300


def ask(context: DoorContext, request: Ask, taint: Taint | None = None) -> QuestionState:
    """Not for two threads at once, nor beside a report. Raises Refusal."""
    git = context.git()
    try:
        page = comms.with_sections(read_file(git, f"refs/heads/{MAIN}", PAGE) or "")
        held = _held(context)
        states = {id: approvals.state_of(page, id) for id in held}
        # A question whose answer was ticked or struck is over.
        _remove(context, [id for id in held if states[id][0] == "over"])
        waiting = [each for id, each in held.items() if states[id][0] != "over"]
        of_work = [each for each in waiting if each.work == request.work]
        question = next((each for each in of_work if each.is_about(request.tool, request.input)), None)
        if question is None:
            if len(waiting) >= MOST_OPEN:
                raise refused(f"{MOST_OPEN} calls wait for the PM's answer already, and no more are asked about")
            question = _new(context, request)
        _show(context, git, question, line_under_report(taint))
        state, why = states.get(question.id, ("waiting", ""))
        return QuestionState(question.id, "waiting" if state == "over" else state, why)
    except (GitError, TipBusy, OSError, ValueError) as error:
        context.log.warning("approval.not_asked", tool=request.tool, reason=redacted_and_cut(str(error), 1000))
        raise later(f"the PM could not be asked: {error}") from None


def close_questions(context: DoorContext, works: Container[str]) -> None:
    """These works are done: their questions are over, and an answer to them answers nothing any more."""
    try:
        _remove(context, [id for id, question in _held(context).items() if question.work in works])
    except OSError as error:
        context.log.error("approvals.not_closed", reason=str(error))


def answers_over(context: DoorContext, page: str, works: Container[str]) -> tuple[str, ...]:
    """Ids of the directives that answer no question of other work than these, which are done. Raises OSError."""
    others = {id for id, question in _held(context).items() if question.work not in works}
    answers = ((each.id, approvals.answers_in(each.text)) for each in comms.open_directives(page))
    return tuple(id for id, said in answers if said and others.isdisjoint(each.id for each in said))


def _held(context: DoorContext) -> dict[str, Question]:
    """The recorded questions by id. A file that holds none is passed over and logged: its call is asked about again.
    Raises OSError."""
    found, problems = questions.held(context.places.questions)
    for problem in problems:
        context.log.error("question.not_readable", error=problem)
    return {question.id: question for question in found}


def _remove(context: DoorContext, ids: Iterable[str]) -> None:
    """Raises OSError."""
    for id in ids:
        os.unlink(questions.path_of(context.places.questions, id))
        sync(context.places.questions)


def _new(context: DoorContext, request: Ask) -> Question:
    """On the disk when this returns. Raises OSError."""
    question = Question(
        id=secrets.token_hex(ID_DIGITS // 2),
        call=approvals.call_hash(request.tool, request.input),
        tool=request.tool,
        input=dict(request.input),
        why=request.why,
        branch=request.branch,
        commit=request.commit,
        asked_at=timestamp(context.wall_seconds()),
        work=request.work,
    )
    questions.record(context.places.questions, question)
    context.log.info("approval.asked", id=question.id, tool=question.tool)
    return question


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
