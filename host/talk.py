"""The PM's half of COMMS.md: directives, reports, and answers to the calls that the agent asks about.

A directive is a commit on main like any push of the PM's; it survives every race with the agent's own pushes. What an
answer is for is read from the keep's record, never from the page."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from host.cli import command, timeout_option
from host.errors import conflict, not_found, usage
from host.home import AgentPaths, Context
from host.repository import GIT_SECONDS, main_commit, open_as_pm, open_repository, page_at
from host.running import holder
from host.screen import Say, Shown, harmless, one_line, plain
from infra.keep.repository.bare_tip import BareTip
from infra.shared import branches, comms
from infra.shared.exit_codes import Exit
from infra.shared.paths import PAGE
from infra.shared.repository.git import Git
from infra.shared.repository.tip import advance, edit_file
from infra.shared.text import first_line

if TYPE_CHECKING:
    from infra.keep.questions import Question

POLL_SECONDS = 0.25
MAX_BYTES = 1 << 20
"""The size of a directive: a model reads it, with the rest of the page, in each run."""
_WHY = {
    Exit.NOT_RUNNING: "the agent is not running; the directive waits for it: 'minifram up'",
    Exit.BUDGET: "today's budget is used up; the directive waits for the next UTC day, or for a higher budget: "
    "'minifram config budget', then 'minifram restart'",
    Exit.TRY_AGAIN: "not done yet; the directive stays open: 'minifram reports -f' continues to wait",
}


class Directive(NamedTuple):
    commit: str
    id: str
    text: str


class Report(NamedTuple):
    time: str
    title: str
    text: str
    """The whole report, heading first."""


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


@command
@click.argument("text")
@click.option("--wait", is_flag=True, help="Wait until a run on it has ended, and print its report.")
@timeout_option(3600.0, "Seconds, with --wait.")
def tell(context: Context, say: Say, text: str, wait: bool, timeout: float) -> Shown:
    """Give the agent a directive: a new open item in main's COMMS.md, as a commit of yours.

    With '-', TEXT is read from standard input. Missing sections of COMMS.md are restored in the same commit.

    \b
    Examples:
      minifram tell "add a test for the parser"
      minifram tell --wait - < directive.md
    """
    home, git = context.initialised(), open_as_pm(context)
    daily_usd = _daily_usd(home) if wait else 0.0  # before anything is written: the settings may be wrong
    directive = add_directive(git, os.fsdecode(sys.stdin.buffer.read(MAX_BYTES + 1)) if text == "-" else text)
    value = plain(directive) | {"report": None}
    if not wait:
        is_down = holder(home.places.watcher_lock) is None
        told = f"told  {directive.commit[:12]} directive {directive.id}"
        return Shown(value, told, _WHY[Exit.NOT_RUNNING] if is_down else "")
    say(f"directive {directive.id} is in {directive.commit[:12]}; waiting for the agent (Ctrl-C leaves it there)")
    report, code = _wait(home, git, directive, daily_usd, time.monotonic() + timeout, say)
    lines = [harmless(report.text)] if report else []
    return Shown(value | {"report": plain(report)}, lines, _WHY.get(code, ""), code)


def _daily_usd(home: AgentPaths) -> float:
    from infra.keep.settings.check import read_settings

    return read_settings(home.settings).budget.daily_usd


def _wait(
    home: AgentPaths, git: Git, directive: Directive, daily_usd: float, deadline: float, say: Say
) -> tuple[Report | None, Exit]:
    """The report that ends a run on the directive, and how the command ends."""
    from infra.keep.ledger.budgets import spent_today

    def is_used_up() -> bool:
        return spent_today(home.places.ledger, daily_usd, time.time()).exhausted

    report, ended = None, Exit.OK
    for report in _new_reports(git, all_reports(git, directive.commit)):
        if report and _is_about(report.text, directive.id):
            ended = Exit.BUDGET if is_used_up() else Exit.TRY_AGAIN
        elif report:
            say(f"{one_line(report.time, 24)} {one_line(report.title, 120)}")
        elif holder(home.places.watcher_lock) is None:
            ended = Exit.NOT_RUNNING
        elif is_used_up():
            ended = Exit.BUDGET
        elif time.monotonic() > deadline:
            ended = Exit.TRY_AGAIN
        if ended is not Exit.OK:
            break
    return report, ended if _is_open(git, directive) else Exit.OK


def _is_about(report: str, id: str) -> bool:
    """Whether the report ends a run on this directive."""
    first = next((line for line in report.split("\n")[1:] if line.strip()), "")
    return first.startswith(comms.ABOUT) and id in first.strip().removeprefix(comms.ABOUT).split(", ")


def add_directive(git: Git, text: str) -> Directive:
    """Add an open directive to main's COMMS.md; words that are one already stay that one. Raises CommandError for words
    that cannot be one."""
    if not text.strip() or "\0" in text or len(text) > MAX_BYTES:
        raise usage(f"a directive has 1 to {MAX_BYTES:,} characters and no zero byte; push what is longer as a file")
    main_commit(git)
    id = ""

    def edit(document: str) -> str:
        nonlocal id
        whole = comms.with_sections(document)
        new = comms.add_directive(whole, text)
        before, after = comms.open_directives(whole), comms.open_directives(new)
        if len(after) != len(before) + 1:
            raise usage(
                "these words would not read back as one open directive: to COMMS.md, '~~…~~' is a directive that is "
                "done, and '<!-- … -->' a comment; say it in other words"
            )
        id = after[-1].id
        return document if id in {item.id for item in before} else new

    commit = advance(BareTip(git), edit_file(git, PAGE, edit, f"directive: {first_line(text)}"))
    return Directive(commit, id, text.strip())


def _is_open(git: Git, directive: Directive) -> bool:
    """Whether the directive still awaits the agent: neither ticked nor struck nor taken off the page."""
    look = git.afresh(GIT_SECONDS)
    try:
        return directive.id in {item.id for item in comms.open_directives(page_at(look, main_commit(look)))}
    except comms.CommsError:
        return False


@command
@click.option("-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many at first.")
@click.option("-f", "--follow", is_flag=True, help="Print new reports as they come; end with Ctrl-C.")
def reports(context: Context, say: Say, number: int, follow: bool) -> Iterator[Shown]:
    """Read what the agent reports on main's COMMS.md, the newest last. With -f --json each is an object of its own."""
    git = open_repository(context.initialised())
    found = all_reports(git)
    shown = found[-number:] if number else []
    value = {"reports": plain(shown), "total": len(found)}
    yield Shown(value, (harmless(report.text) + "\n" for report in shown), "" if found else "no reports yet")
    for report in _new_reports(git, found) if follow else ():
        if report:
            yield Shown({"reports": plain([report])}, harmless(report.text) + "\n")


def all_reports(git: Git, commit: str = "") -> list[Report]:
    """All reports on main, oldest first. Raises CommsError when COMMS.md has no Reports section."""
    found = []
    for text in comms.reports(page_at(git, commit or main_commit(git))):
        moment, _, title = text.split("\n", 1)[0].removeprefix("### ").partition(" ")
        found.append(Report(moment, title, text))
    return found


def _new_reports(git: Git, seen: Sequence[Report]) -> Iterator[Report | None]:
    """Reports as they come, beside those `seen`; None after each look."""
    known, looked_at = set(seen), ""
    while True:
        look = git.afresh(GIT_SECONDS)
        main = main_commit(look)
        if main != looked_at:
            looked_at = main
            with contextlib.suppress(comms.CommsError):  # somebody is between two edits of the page
                found = [report for report in all_reports(look, main) if report not in known]
                known.update(found)
                yield from found
        yield None
        time.sleep(POLL_SECONDS)


@command
@click.argument("id", default="")
def approve(context: Context, say: Say, id: str) -> Shown:
    """Let the agent make the call that it asked about, and show that call; without ID, show all that wait.

    It applies to exactly that call, however often it is made, until the run that asked is done.

    \b
    Example:
      minifram approve 0123456789abcdef
    """
    if id:
        return _answered(context, id, approved=True)
    git = open_as_pm(context)
    found = waiting(context.home, page_at(git, main_commit(git)))
    lines = [line for asking in found for line in _lines(asking)]
    return Shown({"waiting": plain(found)}, lines or "nothing waits for your answer")


@command
@click.argument("id")
@click.argument("why", default="")
def deny(context: Context, say: Say, id: str, why: str) -> Shown:
    """Refuse the call that the agent asked about: ID is in its report; the agent reads WHY.

    \b
    Example:
      minifram deny 0123456789abcdef "use the test server"
    """
    return _answered(context, id, approved=False, why=why)


def _answered(context: Context, id: str, approved: bool, why: str = "") -> Shown:
    """Write `approve ID` or `deny ID: why`. Raises CommandError for an id that waits for no answer."""
    from infra.shared.approvals import open_answers

    git, id = open_as_pm(context), id.strip("[]`").lower()
    page = page_at(git, main_commit(git))
    if said := open_answers(page).get(id):
        now = "approved" if said.approved else "denied"
        raise conflict(f"call {id} is {now} already; to change that, edit the line in COMMS.md")
    found = waiting(context.home, page)
    asking = next((each for each in found if each.id == id), None)
    if asking is None:
        known = ", ".join(f"{each.id} ({one_line(each.tool, 40)})" for each in found) or "nothing"
        raise not_found(f"no call with id {one_line(id, 40)} waits for an answer; waiting: {known}")
    words = " ".join(why.split())
    directive = add_directive(git, f"approve {id}" if approved else f"deny {id}" + (f": {words}" if words else ""))
    head = f"{'approved' if approved else 'denied'}  {directive.commit[:12]} {directive.text}"
    value = plain(directive) | {"id": id, "directive_id": directive.id, "call": plain(asking)}
    return Shown(value, [head, *_lines(asking)])


def waiting(home: AgentPaths, page: str) -> list[Asking]:
    """What waits for the PM, oldest first. Raises CommsError, OSError, and CommandError for a record that is none."""
    from infra.shared.approvals import state_of

    return [_asking(home, each) for each in _held(home) if state_of(page, each.id)[0] == "waiting"]


def _lines(asking: Asking) -> list[str]:
    """The call, for the screen."""
    whose = f"asked by {one_line(asking.version, 80)}"
    why = f", because of {one_line(asking.why, 120)}" if asking.why else ""
    return [f"{asking.id}  {one_line(asking.tool, 40)}  {whose}{why}, {one_line(asking.at, 24)}", f"  {asking.call}"]


def _held(home: AgentPaths) -> list[Question]:
    """The keep's records, oldest first. Raises OSError, CommandError."""
    from infra.keep import questions

    found, problems = questions.held(home.places.questions)
    if problems:
        raise conflict(f"{problems[0]}; nothing was answered")
    return found


def _asking(home: AgentPaths, question: Question) -> Asking:
    from infra.keep.questions import path_of
    from infra.shared.secret_shapes import redacted, redacted_value

    whole, call = json.dumps(question.input), json.dumps(redacted_value(question.input))
    if call != whole:  # what has the shape of a key may be a program's name, so that it is left out is said
        call += " … what looks like a key is left out; the whole call is in "
        call += path_of(home.places.questions, question.id)
    version = branches.version(question.branch, question.commit)
    return Asking(question.id, question.tool, question.asked_at, harmless(call), version, redacted(question.why))
