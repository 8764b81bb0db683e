"""The request `report`: the agent's report and its ticks go onto main's page, in one commit in the agent's name."""

from __future__ import annotations

import time

import msgspec

from infra.keep.git_door.ask import close_questions
from infra.keep.git_door.caller import watcher_says
from infra.keep.git_door.context import AT_ONCE, SECONDS_EACH, DoorContext, later, refused
from infra.keep.known_secrets import read_known
from infra.keep.repository.page import reported, write_reports
from infra.keep.taint import Taint, line_under_report
from infra.shared import comms
from infra.shared.approvals import agents_title
from infra.shared.branches import MAIN, MIND, problem_with_branch
from infra.shared.clock import timestamp
from infra.shared.door import Failure
from infra.shared.mind.inbox import parse_inbox
from infra.shared.mind.layout import INBOX
from infra.shared.people import AGENT
from infra.shared.repository.git import GitError, resolve_commit
from infra.shared.repository.page_text import PAGE, ReportEntry
from infra.shared.repository.tip import TipBusy, read_file
from infra.shared.repository.word import last_word
from infra.shared.requests import Done, Report
from infra.shared.secret_shapes import redacted, redacted_and_cut

NO_COMMIT = "0" * 40
"""As git names none."""
_COUNTED = "stopped ("
"""How titles begin that report trouble which comes again at each tick."""


def report(context: DoorContext, request: Report, taint: Taint | None = None) -> Done | Failure:
    """Not for two threads at once. The keep stamps time, branch and commit, and names no commit that the repository
    does not have."""
    if not request.title.strip():
        return refused("the report has no title; say in a few words what it is about")
    if problem := problem_with_branch(request.branch):
        return refused(problem)
    git = context.git()
    runs = watcher_says(context.places)
    branch, commit = (runs.branch, runs.commit) if runs.branch else (request.branch, request.commit)
    try:
        if resolve_commit(git, commit) is None:
            commit = NO_COMMIT
        request = msgspec.structs.replace(request, branch=branch, commit=commit, title=agents_title(request.title))
        main = git("rev-parse", f"refs/heads/{MAIN}")
        if request.id in reported(git, AGENT):
            return Done(main)
        page = comms.with_sections(read_file(git, main, PAGE) or "")
        again = _again(context, main, request)
        if again is None:
            context.log.info("report.counted", title=request.whole_title)
            return Done(main)
        if not context.allowance.take(time.monotonic()):
            return later(f"over {AT_ONCE} reports came within a short time; the next is taken in {SECONDS_EACH:g} s")
        entry = _entry(context, request, again, line_under_report(taint))
        subject = f"report: {comms.report_heading(entry.title, '').removeprefix('### ').strip()}"
        # A claim of ticks alone, of what is not open, closes no question and begins no new record.
        ends_work = any(directive.id in request.ticks for directive in comms.open_directives(page))
        inbox = parse_inbox(read_file(git, f"refs/heads/{MIND}", INBOX) or "") if request.tasks else None
        ends_task = inbox is not None and not {*request.tasks} & {task.id for task in inbox.tasks}
        main = write_reports(git, subject, [entry], [request.id], request.ticks)
    except (GitError, TipBusy, OSError, ValueError) as error:
        context.log.warning("report.not_written", title=request.whole_title, reason=redacted_and_cut(str(error), 1000))
        return later(f"the report could not be written onto main: {error}")
    if ends_work or ends_task:  # what comes now belongs to the next work; the report is on main whatever happens here
        close_questions(context)
        try:
            if context.record:
                context.record.work_done()
        except OSError as error:
            context.log.error("record.not_marked", reason=str(error))
    context.log.info("report.written", title=entry.title, main=main, ticks=list(request.ticks))
    return Done(main)


def _entry(context: DoorContext, request: Report, again: str, taint: str) -> ReportEntry:
    known = read_known(context.places.secrets)
    title, text = (redacted(words, known) for words in (request.whole_title, request.text))
    try:
        record = context.record.lines() if context.record else ""
    except Exception:
        # What the keep knows is a help beside the report, and must not keep it from the PM.
        context.log.exception("report.without_record", title=title)
        record = ""
    record = "\n".join(filter(None, (taint, record)))
    return ReportEntry(timestamp(context.wall_seconds()), title, "\n\n".join(filter(None, (text, again))), record)


def _again(context: DoorContext, main: str, request: Report) -> str | None:
    """Words on how often this trouble came; None when it is counted only. A report with ticks is always written, and
    after a word of the PM's it is another trouble. Raises GitError."""
    if request.ticks or not request.title.startswith(_COUNTED):
        return ""
    kind = f"{request.branch} {request.title}\n{last_word(context.git(), main)}"
    return context.trouble.again(kind, context.wall_seconds(), request.id)
