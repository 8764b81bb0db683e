"""The verb `report`: the agent's report and its ticks go onto main's page, in one commit in the agent's name."""

from __future__ import annotations

import threading
import time

from infra.keep.git_door.allowance import Allowance
from infra.keep.git_door.ask_verb import close_questions
from infra.keep.git_door.cargo import read_known
from infra.keep.git_door.request_world import World
from infra.shared import comms
from infra.shared.approvals import agents_title
from infra.shared.branches import MAIN
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.page import told, write_reports
from infra.shared.repository.page_text import PAGE, Entry, PageBounds
from infra.shared.repository.tip import TipBusy, read_file
from infra.shared.requests import Done, Later, Refused, Reply, Report, id_of_heading
from infra.shared.same_trouble import SameTrouble
from infra.shared.secret_shapes import redacted

SECONDS = 50.0
"""For all git calls of one report; its client waits a little longer."""

QUESTION = "approval wanted ["
"""How titles begin of reports in which runners of before ask the PM."""

_one_at_a_time = threading.Lock()
_COUNTED = ("stopped (",)
"""How titles begin that tell of trouble which comes again at each tick."""
AT_ONCE, SECONDS_EACH = 300, 10.0
"""So many reports are taken at once, then one in so many seconds: each is a commit, and the cell may go on for ever."""


def report(world: World, request: Report, trouble: SameTrouble, allowance: Allowance) -> Reply:
    if not request.title.strip():
        return Refused("the report has no title; say in a few words what it is about")
    git = Git(world.places.remote, AGENT).within(SECONDS)
    with _one_at_a_time:
        try:
            if request.id in told(git, AGENT):
                return Done(git("rev-parse", f"refs/heads/{MAIN}"))
            again = _again(world, git, request, trouble)
            if again is None:
                world.log.info("report.counted", title=request.whole_title)
                return Done(git("rev-parse", f"refs/heads/{MAIN}"))
            if not allowance.take(time.monotonic()):
                return Later(
                    f"over {AT_ONCE} reports came within a short time; the next is taken in {SECONDS_EACH:g} s"
                )
            entry = _entry(world, request, again)
            subject = f"report: {comms.report_heading(entry.title, '').removeprefix('### ').strip()}"
            bounds = PageBounds(world.settings.comms.keep_reports, world.settings.comms.page_bytes)
            ends_unit = _ends_unit(git, request)
            main = write_reports(git, subject, [entry], [request.id], request.ticks, bounds)
        except (GitError, TipBusy, OSError, ValueError) as error:
            world.log.warning("report.not_written", title=request.whole_title, reason=str(error)[:1000])
            return Later(f"the report could not be written onto main: {error}")
        if ends_unit:
            _unit_done(world)
    world.log.info("report.written", title=entry.title, main=main, ticks=list(request.ticks))
    return Done(main)


def _ends_unit(git: Git, request: Report) -> bool:
    """It ticks what is open: a claim of ticks alone closes no question and begins no new record. Raises GitError."""
    page = comms.with_sections(read_file(git, f"refs/heads/{MAIN}", PAGE) or "")
    return any(directive.id in request.ticks for directive in comms.open_directives(page))


def _unit_done(world: World) -> None:
    """What this unit asked is over, and what comes now is of the next. Whatever fails, the report is on main."""
    close_questions(world)
    try:
        world.unit_done()
    except OSError as error:
        world.log.error("evidence.not_marked", reason=str(error))


def _entry(world: World, request: Report, again: str) -> Entry:
    known = read_known(world.places.secrets)
    shown = request._replace(title=agents_title(request.title))
    title, text = (redacted(words, known) for words in (shown.whole_title, shown.text))
    try:
        record = world.evidence_for(request)
    except Exception:
        # What the keep knows is a help beside the report, and must not keep it from the PM.
        world.log.exception("report.without_record", title=title)
        record = ""
    whole = request.title.startswith(QUESTION)
    return Entry(request.at, title, "\n\n".join(filter(None, (text, again))), record, whole)


def _again(world: World, git: Git, request: Report, trouble: SameTrouble) -> str | None:
    """Words on how often this trouble came about; None when it is counted only. One with ticks is always told, and
    with other Directives on the page it is another trouble."""
    is_old = request.id == id_of_heading(request.at, request.whole_title)  # its runner waits to see it on the page
    if is_old or request.ticks or not request.title.startswith(_COUNTED):
        return ""
    page = comms.with_sections(read_file(git, f"refs/heads/{MAIN}", PAGE) or "")
    kind = f"{request.branch} {request.title}\n{comms.section_text(page, comms.DIRECTIVES)}"
    return trouble.again(kind, world.wall_seconds(), request.id)
