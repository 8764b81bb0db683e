"""`minifram status`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from host.commands.options import Verb, context_of, json_option, screen_of
from infra.shared.exit_codes import Exit

if TYPE_CHECKING:
    from host.agent.status import Standing
    from host.display import Screen


@click.command("status", cls=Verb)
@json_option
@click.pass_context
def verb(ctx: click.Context, as_json_: bool) -> int:
    """How an agent stands, on one screen. Ends with 3 when it is not running, and prints all the same."""
    from host.agent.status import standing
    from host.display import as_json

    context, screen = context_of(ctx), screen_of(ctx)
    now = time.time()
    found = standing(context.initialised(), now)
    if as_json_:
        screen.result(as_json("status", found))
    else:
        for name, text in _lines(found, now, screen):
            screen.result(f"{screen.faint(f'{name:<11}')}{text}")
    return Exit.OK if found.running else Exit.NOT_RUNNING


def _lines(found: Standing, now: float, screen: Screen) -> Iterator[tuple[str, str]]:
    from host.display import counted, duration, one_line, seconds_of, since
    from infra.shared.watcher_file import SAFE_RUNG

    open_zone = " (not isolated)" if found.sandbox == "process" else ""
    yield (
        "agent",
        f"{screen.strong(found.agent)} · {found.sandbox} sandbox{open_zone} · "
        f"autonomy {found.autonomy} · {found.model} model",
    )
    age = since(found.since, now)
    state = screen.good(found.phase) if found.phase == "running" else screen.bad(found.phase)
    if found.preparing:
        state = screen.mark(f"preparing {one_line(found.preparing, 60)}: its environment or its rehearsal")
    if found.running:
        state += f" for {age}" if age else ""
        until = seconds_of(found.until)
        state += f", next launch in {duration(until - now)}" if until else ""
        state += f" · watcher pid {found.pid}" if found.pid else " · watcher's pid is not known: 'minifram doctor'"
    else:
        state += f" for {age}" if age else ""
        state += (
            screen.bad(f", but its runner (pid {found.orphan}) lives on, unwatched") + " · 'minifram up' takes it over"
            if found.orphan
            else " · 'minifram up' starts it"
        )
    yield "state", state
    if found.branch:
        ran = "" if found.is_led else "last: "
        newer = f" · main has other code ({found.main[:12]}), it is next" if found.outdated or found.make_way_by else ""
        newer += f", at {one_line(found.make_way_by, 24)} at the latest" if found.make_way_by else ""
        subject = one_line(found.subject, 60)
        version = f"{one_line(found.branch)} @ {found.commit[:12]} {subject}"
        if found.rung == SAFE_RUNG:
            version = f"{found.rung}: the code of this program, in the clone of {one_line(found.branch)}"
        yield "version", f"{ran}{version}{newer}"
    else:
        yield "version", f"main @ {found.main[:12]} (never started)"
    yield from _ladder(found, screen)
    if found.life:
        life = found.life
        doing = one_line(life.doing, 20)
        doing += f" for {since(life.since, now)}" if since(life.since, now) else ""
        doing += f", {counted(life.steps, 'step')}" if life.steps else ""
        doing += f", until {one_line(life.until, 24)}" if life.until else ""
        yield "unit", f"{one_line(life.unit)} · {doing}" if life.unit else doing
        if life.last_error:
            yield "last error", screen.bad(one_line(life.last_error, 160))
    for index, boot in enumerate(found.boots):
        outcome = screen.bad(boot.outcome) if boot.outcome in ("failed", "died") else boot.outcome
        why = f" · {one_line(boot.detail, 80)}" if boot.detail else ""
        yield (
            "" if index else "boots",
            f"{boot.started_at} {one_line(boot.branch, 40)}@{boot.commit[:12]} {outcome} · "
            f"{one_line(boot.reason, 60)}{why}",
        )
    report = found.last_report
    yield "report", f"{one_line(report.time, 24)} {one_line(report.title, 120)}" if report else "none yet"
    yield "directives", f"{found.open_directives} open"
    if found.untold:
        yield "untold", screen.bad(f"{counted(found.untold, 'report')} of the watcher's not in COMMS.md yet")
    waiting = [f"{one_line(item.name, 60)} ({item.verdict})" for item in found.awaiting_review]
    yield "review", ", ".join(waiting) if waiting else "nothing awaits you"
    for index, ask in enumerate(found.awaiting_approval):
        how = f"since {one_line(ask.at, 24)}: 'minifram approve {ask.id}' or 'minifram deny {ask.id} WHY'"
        yield "" if index else "approval", f"{screen.bad(f'{one_line(ask.tool, 40)} waits')} {how}"
        word = "" if ask.recorded else "the agent's own word: "
        yield "", screen.faint(f"{word}{one_line(ask.call, 120)}")
    if found.budget:
        spent = found.budget
        used_up = f" · {screen.bad('used up')}" if spent.exhausted else ""
        yield (
            "budget",
            f"today ${spent.usd:.2f} of ${spent.daily_usd:.2f} · {spent.tokens:,} of {spent.daily_tokens:,} tokens · "
            f"{counted(spent.calls, 'call')}{used_up}",
        )
    for index, trouble in enumerate(found.troubles):
        yield "" if index else "troubles", f"{trouble.at} {one_line(trouble.text, 200)}"


def _ladder(found: Standing, screen: Screen) -> Iterator[tuple[str, str]]:
    """Who leads and why, and what may not."""
    from host.agent import pins
    from host.display import one_line

    stands_in = found.rung in pins.STAND_INS
    leads = f"branch {one_line(found.branch, 60)}" if found.rung == "branch" else found.rung
    of_main = next((pin for pin in found.pins if pin.is_main), None)
    if stands_in and of_main:
        leads += f": main at {one_line(of_main.commit[:12])} is pinned since {one_line(of_main.at, 24)}"
        leads += f" because {one_line(of_main.why, 120)}"
    elif stands_in and found.is_led:
        leads += ": main is led when it is started next"
    if leads:
        yield "leads", ("" if found.is_led else "last: ") + (screen.bad(leads) if stands_in else leads)
    for index, line in enumerate(pins.shown(found.pins)):
        yield "" if index else "pinned", line
    if found.retry_asked:
        when = "when the watcher looks next" if found.running else "at the next start"
        yield "retry", f"asked for, taken {when}"
    elif found.pins:
        yield "", "until main holds another version, or 'minifram retry'"
