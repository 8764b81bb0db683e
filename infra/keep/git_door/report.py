"""The request `report`: the agent's report and its ticks go onto main's page, in one commit in the agent's name."""

from __future__ import annotations

import time

import msgspec

from infra.keep.git_door.ask import answers_over, close_questions
from infra.keep.git_door.caller import watcher_says
from infra.keep.git_door.context import DoorContext, later, refused
from infra.keep.known_secrets import read_known
from infra.keep.repository.page import reported, write_reports
from infra.keep.repository.page_text import ReportEntry
from infra.keep.taint import Taint, line_under_report
from infra.shared import comms
from infra.shared.approvals import agents_title
from infra.shared.branches import MAIN, MIND
from infra.shared.clock import timestamp
from infra.shared.mind.layout import INBOX
from infra.shared.mind.tasks import inbox_of
from infra.shared.paths import PAGE
from infra.shared.people import AGENT, LOOKED_BACK, is_the_pms
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.tip import TipBusy, read_file
from infra.shared.requests import Done, Report
from infra.shared.secret_shapes import redacted, redacted_and_cut

NO_COMMIT = "0" * 40
"""As git names none."""
_COUNTED = "stopped ("
"""How titles begin that report trouble which comes again at each tick."""


def report(context: DoorContext, request: Report, taint: Taint | None = None) -> Done:
    """Not for two threads at once. The keep stamps time, branch and commit, and names no commit that the repository
    does not have. Raises Refusal."""
    if not request.title.strip():
        raise refused("the report has no title; say in a few words what it is about")
    git = context.git()
    runs = watcher_says(context.places).active
    branch, commit = (runs.branch, runs.commit) if runs.branch else (request.branch, request.commit)
    try:
        if resolve_commit(git, commit) is None:
            commit = NO_COMMIT
        request = msgspec.structs.replace(request, branch=branch, commit=commit, title=agents_title(request.title))
        main = git("rev-parse", f"refs/heads/{MAIN}")
        works = (*request.ticks, *request.tasks, "")
        inbox = inbox_of(read_file(git, f"refs/heads/{MIND}", INBOX) or "") if request.tasks else None
        ends_task = inbox is not None and not {*request.tasks} & {task.task_id for task in inbox.tasks}
        if request.id in reported(git, AGENT):
            if ends_task:  # a runner that was killed behind it has its task leave the inbox later
                close_questions(context, works)
            return Done(main)
        page = comms.with_sections(read_file(git, main, PAGE) or "")
        again = _again(context, main, request)
        if again is None:
            context.log.info("report.counted", title=request.whole_title)
            return Done(main)
        if not context.allowance.take(time.monotonic()):
            raise later("more reports came than are taken within a short time; send this one again in a while")
        entry = _entry(context, request, again, line_under_report(taint))
        subject = f"report: {comms.report_heading(entry.title, '').removeprefix('### ').strip()}"
        # A claim of ticks alone, of what is not open, closes no question and begins no new record.
        ends_work = any(directive.id in request.ticks for directive in comms.open_directives(page))
        answers = answers_over(context, page, works) if ends_work or ends_task else ()
        main = write_reports(git, subject, [entry], [request.id], (*request.ticks, *answers))
    except (GitError, TipBusy, OSError, ValueError) as error:
        context.log.warning("report.not_written", title=request.whole_title, reason=redacted_and_cut(str(error), 1000))
        raise later(f"the report could not be written onto main: {error}") from None
    if ends_work or ends_task:  # what comes now belongs to the next work; the report is on main whatever happens here
        close_questions(context, works)
        context.record.work_done()
    context.log.info("report.written", title=entry.title, main=main, ticks=list(request.ticks))
    return Done(main)


def _entry(context: DoorContext, request: Report, again: str, taint: str) -> ReportEntry:
    known = read_known(context.places.secrets)
    title, text = (redacted(words, known) for words in (request.whole_title, request.text))
    record = "\n".join(filter(None, (taint, context.record.lines())))
    return ReportEntry(timestamp(context.wall_seconds()), title, "\n\n".join(filter(None, (text, again))), record)


def _again(context: DoorContext, main: str, request: Report) -> str | None:
    """Words on how often this trouble came; None when it is counted only. A report with ticks is always written, and
    after a word of the PM's it is another trouble. Raises GitError."""
    if request.ticks or not request.title.startswith(_COUNTED):
        return ""
    kind = f"{request.branch} {request.title}\n{_last_word(context.git(), main)}"
    return context.trouble.again(kind, context.wall_seconds(), request.id)


def _last_word(git: Git, main: str) -> str:
    """The PM's newest commit on main; empty when it is too far back. Raises GitError."""
    lines = git("log", f"--max-count={LOOKED_BACK}", "--encoding=UTF-8", "--format=%H %ce", main, "--").splitlines()
    return next((commit for commit, _, email in (line.partition(" ") for line in lines) if is_the_pms(email)), "")
