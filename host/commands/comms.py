"""Commands by which the PM speaks with the agent: directives, reports, approvals, and answers in its model's place."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from host.commands.options import command, timeout_option
from host.context import Context
from host.display import Screen, counted, harmless, one_line, plain, seconds_of
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.paths import AgentPaths
    from host.repository.comms import Directive, Report
    from infra.shared.repository.git import Git
    from infra.shared.settings import Settings

_WHY = {
    Exit.NOT_RUNNING: "the agent is not running; the directive waits for it: 'minifram up'",
    Exit.BUDGET: "today's budget is used up; the directive waits for the next UTC day, or for a higher budget: "
    "'minifram config budget', then 'minifram restart'",
    Exit.TRY_AGAIN: "not done yet; the directive stays open: 'minifram reports -f' continues to wait",
}


@command
@click.argument("text")
@click.option("--wait", is_flag=True, help="Wait until the agent has done it, and print its report.")
@timeout_option(3600.0, "Seconds, with --wait.")
def tell(context: Context, screen: Screen, text: str, wait: bool, timeout: float) -> int:
    """Give the agent a directive: a new open item in main's COMMS.md, as a commit of yours.

    With '-', TEXT is read from standard input. Missing sections of COMMS.md are restored in the same commit.

    \b
    Examples:
      minifram tell "add a test for the parser"
      minifram tell --wait - < directive.md
    """
    from host.repository.comms import MAX_BYTES, add_directive, directive_text
    from host.repository.open import open_as_pm
    from host.running.watcher import holder

    home = context.initialised()
    words = directive_text(text, lambda: sys.stdin.buffer.read(MAX_BYTES + 1))
    settings = None
    if wait:
        from infra.shared.settings_file import read_settings

        settings = read_settings(home.settings)
    git = open_as_pm(context)
    directive = add_directive(git, words)
    if directive.sections_put_back:
        screen.progress("COMMS.md lacked a section of its own ('## Directives', '## Reports'); it was put back")
    report, ended = None, Exit.OK
    lines: list[str] = []
    if settings:
        screen.progress(
            f"directive {directive.id} is in {directive.commit[:12]}; waiting for the agent (Ctrl-C leaves it there)"
        )
        report, ended = _wait(home, settings, git, directive, time.monotonic() + timeout, screen)
        lines = [harmless(report.text)] if report else []
    else:
        if holder(home.places.watcher_lock) is None:
            screen.progress(_WHY[Exit.NOT_RUNNING])
        lines = [f"told  {directive.commit[:12]} directive {directive.id}"]
    screen.show(plain(directive) | {"report": plain(report)}, lines)
    return ended


def _wait(
    home: AgentPaths, settings: Settings, git: Git, directive: Directive, deadline: float, screen: Screen
) -> tuple[Report | None, Exit]:
    """The report on the directive, and how the command ends."""
    from host.repository.comms import POLL_SECONDS, is_about, is_open, new_reports, reports
    from host.running.watcher import holder

    began = time.time()
    stopped_because = Exit.TRY_AGAIN

    def pause() -> bool:
        nonlocal stopped_because
        if holder(home.places.watcher_lock) is None:
            stopped_because = Exit.NOT_RUNNING
            return False
        if _is_out_of_budget(home, settings, began):
            stopped_because = Exit.BUDGET
            return False
        time.sleep(POLL_SECONDS)
        return time.monotonic() < deadline

    for report in new_reports(git, reports(git, directive.commit), pause):
        if is_about(report, directive):
            return report, Exit.OK
        screen.progress(f"{one_line(report.time, 24)} {one_line(report.title, 120)}")
    if not is_open(git, directive):
        screen.progress("the directive is done or gone, but no report says so; see 'minifram reports'")
        return None, Exit.OK
    screen.progress(_WHY[stopped_because])
    return None, stopped_because


def _is_out_of_budget(home: AgentPaths, settings: Settings, since: float) -> bool:
    """The ledger says so, or the runner went to sleep over it since then."""
    from host.agent.status import activity_of, spent_today
    from host.running.watcher import known_state

    if spent_today(home, settings, time.time()).exhausted:
        return True
    state = known_state(home)
    doing = activity_of(home, state) if state else None
    if doing is None or not doing.last_error.startswith("budget_exhausted"):
        return False
    return (seconds_of(doing.since) or 0.0) >= since


@command
@click.option("-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many at first.")
@click.option("-f", "--follow", is_flag=True, help="Print new reports as they come; end with Ctrl-C.")
def reports(context: Context, screen: Screen, number: int, follow: bool) -> None:
    """Read what the agent reports on main's COMMS.md, the newest last. With -f --json each is an object of its own."""
    from host.repository import comms
    from host.repository.open import open_repository

    git = open_repository(context.initialised())
    found = comms.reports(git)
    shown = found[-number:] if number else []
    if not follow:
        value = {"reports": plain(shown), "total": len(found)}
        screen.show(value, (harmless(report.text) + "\n" for report in shown))
        if not found:
            screen.advise("no reports yet")
        return

    def pause() -> bool:
        time.sleep(comms.POLL_SECONDS)
        return True

    for some in (shown, comms.new_reports(git, found, pause)):
        for report in some:
            screen.show(report, harmless(report.text) + "\n", "report")


@command
@click.argument("id", default="")
def approve(context: Context, screen: Screen, id: str) -> None:
    """Let the agent make the call that it asked about, and show that call; without ID, show all that wait.

    It applies to exactly that call, however often it is made, until the run that asked is done.

    \b
    Example:
      minifram approve 0123456789abcdef
    """
    from host.repository.approvals import listed, shown
    from host.repository.open import open_as_pm

    home = context.initialised()
    if id:
        _answer(context, screen, id, approved=True, why="")
        return
    waiting = listed(open_as_pm(context), home)
    lines = ["\n".join(shown(request)) for request in waiting]
    screen.show({"waiting": plain(waiting)}, lines or "nothing waits for your answer", verbatim=True)


@command
@click.argument("id")
@click.argument("why", default="")
def deny(context: Context, screen: Screen, id: str, why: str) -> None:
    """Refuse the call that the agent asked about: ID is in its report; the agent reads WHY.

    \b
    Example:
      minifram deny ab12cd34 "use the test server"
    """
    _answer(context, screen, id, approved=False, why=why)


def _answer(context: Context, screen: Screen, id: str, approved: bool, why: str) -> None:
    from host.repository.approvals import answer, shown
    from host.repository.open import open_as_pm

    directive, request = answer(open_as_pm(context), context.initialised(), id, approved, why)
    head = f"{'approved' if approved else 'denied'}  {directive.commit[:12]} {directive.text}"
    told = plain(directive) | {"id": request.id, "directive_id": directive.id, "call": plain(request)}
    screen.show(told, [head, *shown(request)], verbatim=True)


@command
@click.argument("text", required=False)
@click.option("--words", is_flag=True, help="TEXT is words, whatever it looks like.")
@click.option("--wait", type=click.FloatRange(min=0), default=0.0, help="Seconds to wait until something is asked.")
def answer(context: Context, screen: Screen, text: str | None, words: bool, wait: float) -> None:
    """Be the model: show what the agent asks, and answer it. For 'provider: manual'.

    Without TEXT, new messages are shown, and on a terminal the answer is read, up to Ctrl-D; an empty one leaves the
    question open. With '-', TEXT is read from standard input. It is words, or what is to be done with words beside it:
    an operation ('minifram protocol guide'), a call of a tool, or a list of either:

    \b
      {"type": "shell", "command": "ls"}
      {"name": "bash", "input": {"command": "ls"}}

    Words alone end the agent's work on its directives. With --json the question is printed, whole.

    \b
    Examples:
      minifram answer --wait 600
      minifram answer "All done."
      minifram answer --json | my-model | minifram answer -
    """
    from host.agent import answering
    from infra.shared.conversation import to_plain
    from infra.shared.manual import MAX_ANSWER_BYTES

    home = context.initialised()
    question = answering.oldest(home, wait)
    told = {"id": question.id, "at": question.at, "others": question.others}
    if text is None:
        screen.show(told | {"request": to_plain(question.request)}, answering.news(question.request), verbatim=True)
        if screen.schema or not sys.stdin.isatty():
            return
        screen.progress("your answer, then Ctrl-D:")
    if text is None or text == "-":
        text = sys.stdin.buffer.read(MAX_ANSWER_BYTES + 1).decode(errors="replace")
        if not text.strip() and sys.stdin.isatty():
            screen.progress("no answer; the question stays open")
            return
    answering.answer(home, question, text, words)
    others = f"; {counted(question.others, 'other question')} wait" if question.others else ""
    screen.show({"id": question.id, "others": question.others}, f"answered{others}")
