"""The verb `ask`: may this call be made?

The question is recorded before anybody is shown it, and its id is drawn here, so an answer under Directives stands for
that one record and nothing else: not for another call, and not for the same call asked about at another time."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Sequence

import msgspec

from infra.keep.git_door.cargo import read_known
from infra.keep.git_door.question_files import QuestionFiles
from infra.keep.git_door.request_world import World
from infra.shared import approvals, comms, requests
from infra.shared.approvals import ID_DIGITS, State
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.depth import MAX_LEVELS, is_too_deep
from infra.shared.people import AGENT
from infra.shared.questions import MOST_OPEN, Question
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.page import told, write_reports
from infra.shared.repository.page_text import PAGE, Entry, PageBounds
from infra.shared.repository.tip import TipBusy, read_file
from infra.shared.requests import Ask, Later, Refused, Reply
from infra.shared.secret_shapes import redacted, redacted_value

SECONDS = 50.0
"""For all git calls of one question; its client waits a little longer."""
SHOWN_CHARS = 4000
"""Of the arguments on the page, which stands in every prompt."""
WHY_CHARS = 300

_one_at_a_time = threading.Lock()


def ask(world: World, request: Ask) -> Reply:
    if is_too_deep(dict(request.input)):
        return Refused(f"the arguments are nested over {MAX_LEVELS} levels deep")
    git, files = Git(world.places.remote, AGENT).within(SECONDS), _files(world)
    with _one_at_a_time:
        try:
            page = comms.with_sections(read_file(git, f"refs/heads/{MAIN}", PAGE) or "")
            held = _still_open(files, page)
            question = next((each for each in held if each.is_about(request.tool, request.input)), None)
            if question is None and len(held) >= MOST_OPEN:
                return Refused(f"{MOST_OPEN} calls wait for the PM's answer already, and no more are asked about")
            if question is None:
                question = _new(request, timestamp(world.wall_seconds()))
                files.add(question)
                world.log.info("approval.asked", id=question.id, tool=question.tool)
            if not question.told:
                _show(world, git, question)
                files.add(msgspec.structs.replace(question, told=True))
            return _reply(question, page)
        except (GitError, TipBusy, OSError, ValueError) as error:
            world.log.warning("approval.not_asked", tool=request.tool, reason=str(error)[:1000])
            return Later(f"the PM could not be asked: {error}")


def close_questions(world: World) -> None:
    """A unit of work is done: what it asked is over, and an answer to it answers nothing any more."""
    files = _files(world)
    with _one_at_a_time:
        try:
            files.remove(*files.all())
        except OSError as error:
            world.log.error("approvals.not_closed", reason=str(error))


def _files(world: World) -> QuestionFiles:
    return QuestionFiles(world.places.questions, world.log)


def _still_open(files: QuestionFiles, page: str) -> Sequence[Question]:
    """The questions whose answer has not been ticked or struck; the others go. Raises OSError."""
    held = files.all()
    states = approvals.states(page, tuple(question.id for question in held))
    over = [question for question in held if states[question.id][0] is State.OVER]
    files.remove(*over)
    return [question for question in held if question not in over]


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
        report=secrets.token_hex(16),
    )


def _show(world: World, git: Git, question: Question) -> None:
    """Put it onto the page; once, whenever we are killed. Raises GitError, TipBusy, OSError."""
    if question.report in told(git, AGENT):
        return
    title = approvals.title(question.branch, question.commit, question.id, question.tool)
    known = read_known(world.places.secrets)
    entry = Entry(question.asked_at, redacted(title, known), "", redacted(question_text(question, known), known))
    bounds = PageBounds(world.settings.comms.keep_reports, world.settings.comms.page_bytes)
    write_reports(git, f"approval wanted [{question.id}]", [entry], [question.report], (), bounds)


def question_text(question: Question, known: tuple[bytes, ...] = ()) -> str:
    """What the page shows of it: keys left out and long arguments cut, and both are said, as either may hide what the
    call does."""
    whole = json.dumps(question.input)
    call = _printable(redacted(json.dumps(redacted_value(question.input)), known))
    more = len(call) - SHOWN_CHARS
    cut = f"\n\n{more} characters more: `minifram approve` without an ID shows all." if more > 0 else ""
    if call != whole:
        cut += (
            "\n\n**Not all of this call is shown**: what looks like a key is replaced by `[secret]`. `minifram approve`"
            " without an ID names the file that has the whole call."
        )
    why = _printable(" ".join(question.why.split()))[:WHY_CHARS]
    return (
        f"Write `approve {question.id}` under Directives, or `deny {question.id}: why`, or use `minifram approve "
        f"{question.id}`. Until then the work waits. Asked because of: {why}\n\n"
        f"    {call[:SHOWN_CHARS]}{cut}\n\nSHA-256 of the call: {question.call}"
    )


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _reply(question: Question, page: str) -> Reply:
    state, why = approvals.states(page, (question.id,))[question.id]
    match state:
        case State.APPROVED:
            return requests.Question(question.id, "approved")
        case State.DENIED:
            return requests.Question(question.id, "denied", why)
    return requests.Question(question.id, "waiting")
