"""`minifram tell`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.display import Screen
    from host.paths import AgentPaths
    from host.repository.comms import Report, Told
    from infra.shared.repository.git import Git
    from infra.shared.settings import Settings


@click.command("tell", cls=Verb)
@click.argument("text")
@click.option("--wait", is_flag=True, help="Wait until the agent has done it, and print its report.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=3600.0, show_default=True, help="Seconds, with --wait."
)
@json_option
@click.pass_context
def verb(ctx: click.Context, text: str, wait: bool, timeout: float, as_json_: bool) -> int:
    """Give the agent a directive: a new open item in main's COMMS.md, as a commit of yours.

    TEXT of '-' is read from standard input. A COMMS.md without its sections gets them back in the same commit.

    \b
    Examples:
      minifram tell "add a test for the parser"
      minifram tell --wait - < directive.md
    """
    from host.display import as_json, plain
    from host.repository import comms as talk
    from host.repository import open as bare
    from host.running import watcher as watching

    context, screen = context_of(ctx), screen_of(ctx)
    home = context.initialised()
    words = talk.directive_text(text, lambda: sys.stdin.buffer.read(talk.MAX_BYTES + 1))
    settings = _settings(home) if wait else None
    git = bare.open_repository(home, bare.pm_of(context.environ))
    told = talk.tell(git, words)
    if told.sections_put_back:
        screen.progress("COMMS.md lacked a section of its own ('## Directives', '## Reports'); it was put back")
    report, ended = None, int(Exit.OK)
    if not wait and watching.holder(home.places.watcher_lock) is None:
        screen.progress(_WHY[int(Exit.NOT_RUNNING)])
    if settings:
        screen.progress(f"directive {told.id} is in {told.commit[:12]}; waiting for the agent (Ctrl-C leaves it there)")
        report, ended = _wait(home, settings, git, told, time.monotonic() + timeout, screen)
    if as_json_:
        screen.result(as_json("tell", plain(told) | {"report": plain(report)}))
    elif report:
        from host.display import harmless

        screen.result(harmless(report.text))
    elif not wait:
        screen.result(f"told  {told.commit[:12]} directive {told.id}")
    return ended


def _settings(home: AgentPaths) -> Settings:
    from infra.shared.settings import read_settings

    return read_settings(home.settings)


def _wait(
    home: AgentPaths, settings: Settings, git: Git, told: Told, deadline: float, screen: Screen
) -> tuple[Report | None, int]:
    """The report on the directive, and how the command ends."""
    from host.display import one_line
    from host.repository import comms as talk
    from host.running import watcher as watching

    began = time.time()
    stopped_because = int(Exit.TRY_AGAIN)

    def pause() -> bool:
        nonlocal stopped_because
        if watching.holder(home.places.watcher_lock) is None:
            stopped_because = Exit.NOT_RUNNING
            return False
        if _is_out_of_budget(home, settings, began):
            stopped_because = Exit.BUDGET
            return False
        return going_on()

    going_on = talk.pause_until(deadline)
    for report in talk.new_reports(git, talk.reports(git, told.commit), pause):
        if talk.is_about(report, told):
            return report, Exit.OK
        screen.progress(f"{one_line(report.time, 24)} {one_line(report.title, 120)}")
    if not talk.is_open(git, told):
        screen.progress("the directive is done or gone, but no report says so; see 'minifram reports'")
        return None, Exit.OK
    screen.progress(_WHY[stopped_because])
    return None, stopped_because


def _is_out_of_budget(home: AgentPaths, settings: Settings, since: float) -> bool:
    """The ledger says so, or the runner went to sleep over it since then."""
    from host.agent import status as standing
    from host.display import seconds_of
    from host.running import watcher as watching

    if standing.spent_today(home, settings, time.time()).exhausted:
        return True
    state = watching.known_state(home)
    life = standing.life_of(home, state) if state else None
    if life is None or not life.last_error.startswith("budget_exhausted"):
        return False
    return (seconds_of(life.since) or 0.0) >= since


_WHY = {
    int(Exit.NOT_RUNNING): "the agent is not running; the directive waits for it: 'minifram up'",
    int(Exit.BUDGET): "today's budget is used up; the directive waits for the next UTC day, or for a higher budget: "
    "'minifram config budget', then 'minifram restart'",
    int(Exit.TRY_AGAIN): "not done yet; the directive stays open: 'minifram reports -f' goes on waiting",
}
