"""Commands that look at an agent and at this machine, and `demo` and `completion`, which need no agent."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from host.commands.options import command, command_without_json
from host.context import Context
from host.display import Screen, Verbatim, counted, duration, harmless, one_line, plain, seconds_of, since
from host.errors import not_found, usage
from infra.shared.exit_codes import Exit
from infra.shared.labels import TASK

if TYPE_CHECKING:
    from host.agent.duties import DutyShown
    from host.agent.settings_text import Entry
    from host.agent.status import Status
    from host.agent.web import WebUse

SHELLS = ("bash", "zsh", "fish")


@command
def status(context: Context, screen: Screen) -> int:
    """The state of an agent, on one screen. Exits with 3 when it is not running, and still prints it."""
    from host.agent.status import read_status

    now = time.time()
    found = read_status(context.initialised(), now)
    lines = (type(text)(f"{screen.faint(f'{name:<11}')}{text}") for name, text in _status(found, now, screen))
    screen.show(found, lines)
    return Exit.OK if found.running else Exit.NOT_RUNNING


def _status(found: Status, now: float, screen: Screen) -> Iterator[tuple[str, str]]:
    open_zone = " (not isolated)" if found.sandbox == "process" else ""
    open_zone += f", egress {found.egress}" if found.egress not in ("", "open") else ""
    yield (
        "agent",
        f"{screen.strong(found.agent)} · {found.sandbox} sandbox{open_zone} · "
        f"autonomy {found.autonomy} · {found.model} model",
    )
    yield "state", _state(found, now, screen)
    yield "version", _version(found)
    yield from _ladder(found, screen)
    for branch in found.examining:
        yield "examining", screen.mark(f"{one_line(branch, 60)}, asked for or under way")
    if doing := found.life:
        text = one_line(doing.doing, 20)
        text += f" for {since(doing.since, now)}" if since(doing.since, now) else ""
        text += f", {counted(doing.steps, 'step')}" if doing.steps else ""
        text += f", {one_line(doing.state, 20)}" if doing.state else ""
        text += f", until {one_line(doing.until, 24)}" if doing.until else ""
        yield "unit", f"{one_line(doing.unit)} · {text}" if doing.unit else text
        if doing.waits:
            yield "waits", screen.bad(one_line(doing.waits, 240))
        if doing.services:
            yield "services", one_line(doing.services, 240)
        if doing.last_error:
            yield "last error", screen.bad(one_line(doing.last_error, 160))
    for index, boot in enumerate(found.boots):
        outcome = screen.bad(boot.outcome) if boot.outcome in ("failed", "died") else boot.outcome
        why = f" · {one_line(boot.detail, 80)}" if boot.detail else ""
        version = f"{one_line(boot.branch, 40)}@{boot.commit[:12]}"
        yield "" if index else "boots", f"{boot.started_at} {version} {outcome} · {one_line(boot.reason, 60)}{why}"
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
        yield "", Verbatim(screen.faint(one_line(ask.call, 120)))
    if spent := found.budget:
        used_up = f" · {screen.bad('used up')}" if spent.exhausted else ""
        yield (
            "budget",
            f"today ${spent.usd:.2f} of ${spent.daily_usd:.2f} · {spent.tokens:,} of {spent.daily_tokens:,} tokens · "
            f"{counted(spent.calls, 'call')}{used_up}{_by_label(spent.labels)}",
        )
    for index, line in enumerate(found.taint):
        yield "" if index else "taint", screen.bad(one_line(line, 300))
    if found.web and found.web.last:
        yield "web", web_line(found.web)
    for index, line in enumerate(found.mind):
        yield "" if index else "mind", screen.bad(one_line(line, 300))
    for index, duty in enumerate(found.duties):
        yield "" if index else "duties", _duty(duty, screen)
    if found.quiet:
        yield "learning", screen.bad(found.quiet)
    for index, incident in enumerate(found.troubles):
        yield "" if index else "troubles", f"{incident.at} {one_line(incident.text, 200)}"


def _duty(duty: DutyShown, screen: Screen) -> str:
    done = f"{one_line(duty.period, 10)} done at {one_line(duty.at, 24)}" if duty.period else "never done"
    failed = f" · {screen.bad(f'failed: {one_line(duty.failed, 120)}')}" if duty.failed else ""
    return f"{duty.words}: {done}, due {duty.next}{failed}"


def _by_label(labels: Mapping[str, float]) -> str:
    """What else than tasks was paid for."""
    shown = [f"{label} ${usd:.2f}" for label, usd in labels.items() if label != TASK]
    return f" · of it {', '.join(shown)}" if shown else ""


def web_line(used: WebUse) -> str:
    """What the web door did, on one line."""
    packages = f", {counted(used.packages, 'connection')} for packages" if used.packages else ""
    hosts = f" of {counted(len(used.hosts), 'host')}" if used.served else ""
    return (
        f"door {one_line(used.state, 100)} · {used.served} served{hosts}, {used.denied} denied, {used.failed} failed"
        f"{packages} · last {one_line(used.last, 24) or 'never'}"
    )


def _state(found: Status, now: float, screen: Screen) -> str:
    state = screen.good(found.phase) if found.phase == "running" else screen.bad(found.phase)
    if found.preparing:
        state = screen.mark(f"preparing {one_line(found.preparing, 60)}: its environment or its rehearsal")
    age = since(found.since, now)
    state += f" for {age}" if age else ""
    if not found.running:
        lost = f", but its runner (pid {found.orphan}) lives on, unwatched"
        then = " · 'minifram up' takes it over" if found.orphan else " · 'minifram up' starts it"
        return state + (screen.bad(lost) if found.orphan else "") + then
    until = seconds_of(found.until)
    state += f", next launch in {duration(until - now)}" if until else ""
    return state + (f" · watcher pid {found.pid}" if found.pid else " · watcher's pid is not known: 'minifram doctor'")


def _version(found: Status) -> str:
    from infra.shared.watcher_file import SAFE_LEVEL

    if not found.branch:
        return f"main @ {found.main[:12]} (never started)"
    newer = f" · main has other code ({found.main[:12]}), it is next" if found.outdated or found.make_way_by else ""
    newer += f", at {one_line(found.make_way_by, 24)} at the latest" if found.make_way_by else ""
    version = f"{one_line(found.branch)} @ {found.commit[:12]} {one_line(found.subject, 60)}"
    if found.level == SAFE_LEVEL:
        version = f"{found.level}: the code of this program, in the clone of {one_line(found.branch)}"
    return f"{'' if found.is_led else 'last: '}{version}{newer}"


def _ladder(found: Status, screen: Screen) -> Iterator[tuple[str, str]]:
    """What runs and why, and what may not."""
    from host.agent.pins import STAND_INS, shown

    stands_in = found.level in STAND_INS
    active = f"branch {one_line(found.branch, 60)}" if found.level == "branch" else found.level
    of_main = next((pin for pin in found.pins if pin.is_main), None)
    if stands_in and of_main:
        active += f": main at {one_line(of_main.commit[:12])} is pinned since {one_line(of_main.at, 24)}"
        active += f" because {one_line(of_main.why, 120)}"
    elif stands_in and found.is_led:
        active += ": main becomes active at its next start"
    if active:
        yield "active", ("" if found.is_led else "last: ") + (screen.bad(active) if stands_in else active)
    for index, line in enumerate(shown(found.pins)):
        yield "" if index else "pinned", line
    if found.retry_asked:
        yield "retry", f"requested, applied {'when the watcher looks next' if found.running else 'at the next start'}"
    elif found.pins:
        yield "", "until main holds another version, or 'minifram retry'"


@command
def doctor(context: Context, screen: Screen) -> int:
    """Check this machine and the agent's directories. Exits with 8 on findings, with 4 when there is no agent.

    It repairs only damage by a power cut to the repository that needs no guess, and reports it.
    """
    from host.agent.doctor import diagnose

    found = diagnose(context)
    paints = {"ok": screen.good, "note": screen.faint}
    lines = (
        f"{paints.get(each.level, screen.bad)(f'{each.level:<5}')} {each.check:<16} {harmless(each.text)}"
        for each in found.results
    )
    screen.show(plain(found) | {"findings": found.findings}, lines)
    screen.advise(counted(found.findings, "finding") if found.findings else "nothing found")
    if found.findings:
        return Exit.FINDINGS
    return Exit.OK if found.initialised else Exit.NOT_FOUND


@command
@click.option("--test", is_flag=True, help="Send one notification by each way that is configured, and say how it went.")
def notify(context: Context, screen: Screen, test: bool) -> int:
    """Send notifications of an agent until this command is ended. 'minifram up' starts it when 'notify' is configured.

    What is sent, by which command or webhook, is in minifram.yaml ('minifram config notify'), and takes effect with
    'minifram restart'. To run it as a service of systemd: 'minifram generate notify --install'.

    \b
    Examples:
      minifram notify --test
    """
    from host.notify import service

    if not test:
        service.run(context, screen.progress)
        return Exit.OK
    found = service.test(context)
    lines = (
        f"{each.channel:<8} {screen.bad(each.error) if each.error else screen.good('delivered')}" for each in found
    )
    screen.show({"agent": context.agent, "sent": plain(found)}, lines)
    return Exit.FAILURE if any(each.error for each in found) else Exit.OK


@command
@click.argument("key", required=False)
def config(context: Context, screen: Screen, key: str | None) -> int:
    """Each setting: its value, where that came from, its type and meaning. KEY is one, or a section of them.
    Exits with 8 when the model of these settings cannot work.

    \b
    Examples:
      minifram config
      minifram config limits.bash_seconds
    """
    from host.agent.model_check import problem_in_effect
    from host.agent.settings_text import chosen, explained, unknown_key

    home = context.initialised()
    known = explained(home.settings)
    found = chosen(known, key)
    if not found:
        raise not_found(unknown_key(known, key or ""))
    lines = (line for entry in found for line in _setting(entry, screen))
    screen.show({"file": home.settings, "settings": plain(found)}, lines)
    if problem := problem_in_effect(home):
        screen.progress(problem)
        return Exit.FINDINGS
    return Exit.OK


def _setting(entry: Entry, screen: Screen) -> Iterator[str]:
    origin = "default" if entry.origin == "default" else f"set in {entry.origin}, default {_shown(entry.default)}"
    yield f"{screen.strong(entry.key)}: {harmless(_shown(entry.value))}   {screen.faint(origin)}"
    yield f"    {entry.meaning + ' ' if entry.meaning else ''}({entry.type})"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


@command_without_json
@click.option("--sandbox", type=click.Choice(["process", "podman"]), default="process", help="Default: process.")
@click.option("--keep-at", metavar="DIR", help="Keep all files there for inspection.")
def demo(context: Context, screen: Screen, sandbox: str, keep_at: str | None) -> int:
    """Watch an agent work, improve itself, fail and recover: real programs, a scripted model, no key, no network."""
    run_demo = importlib.import_module("host.agent.demo").run_demo
    return int(run_demo(keep_at, sandbox, screen.out))


@command_without_json
@click.argument("shell", required=False, type=click.Choice(SHELLS))
def completion(context: Context, screen: Screen, shell: str | None) -> None:
    """Print the completion script of your shell (default: the one in $SHELL).

    \b
    Examples:
      minifram completion bash > ~/.local/share/bash-completion/completions/minifram
      minifram completion zsh > ~/.zfunc/_minifram
      minifram completion fish > ~/.config/fish/completions/minifram.fish
    """
    from click.shell_completion import get_completion_class

    name = shell or os.path.basename(context.environ.get("SHELL", ""))
    kind = get_completion_class(name) if name in SHELLS else None
    if kind is None:
        raise usage(f"no completion for shell {name!r}; give one of {', '.join(SHELLS)}")
    # `source_template` and not `source()`: that one runs bash to look at its version.
    made = kind(click.get_current_context().find_root().command, {}, "minifram", "_MINIFRAM_COMPLETE")
    screen.show(None, made.source_template % made.source_vars())
