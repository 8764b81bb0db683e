"""`minifram notify`: tells the PM what is new about an agent, by the PM's own command (`notify.command`).

What holds now and was not told goes into one letter, and its keys into a file once the command has taken it. So a
letter that was not taken is sent at the next look, and one whose sender was killed may come twice, with the same
keys."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import click

from host.cli import command
from host.errors import as_command_error, conflict, failure, usage
from host.home import AgentPaths, Context
from host.repository import open_repository
from host.screen import Say, Shown, as_json, one_line
from host.status import Status, read_status
from host.talk import Report, all_reports
from infra.cell.run_states import StopReason
from infra.keep.programs import keep_command
from infra.keep.settings.check import read_settings
from infra.keep.settings.models import VARIABLES
from infra.keep.settings.schema import Settings
from infra.keep.watcher_file import Level, Phase
from infra.shared.files import lock_within, write_whole
from infra.shared.paths import ROOT
from infra.shared.secret_shapes import redacted

LOOK_SECONDS, COMMAND_SECONDS = 30.0, 30.0
NEAR_END = 0.9
"""Of the day's budget."""
FAILED_STARTS = 3
_REPORT = re.compile(r"\S+@[0-9a-f]{7,64} (?P<kind>done|stopped)(?: \((?P<why>[^)]*)\))?: .*")


class Fact(NamedTuple):
    """Something that holds now, and that the PM may want to be told once."""

    key: str
    """The same for the same thing, however often it is looked at."""
    kind: str
    """One of `notify.on`."""
    text: str


@command
@click.option("--once", is_flag=True, help="Look and tell once, as for cron.")
@click.option("--test", is_flag=True, help="Send one letter as a test.")
def notify(context: Context, say: Say, once: bool, test: bool) -> Shown:
    """Send you what is new about an agent, by 'notify.command' of its settings. 'minifram up' starts this when that is
    set; it ends when the agent has not run for a minute.

    The command gets one line of JSON on its standard input, at most one each half minute. To post it somewhere:

    \b
      notify: {command: "curl -fsS --data-binary @- https://ntfy.sh/MY-TOPIC"}
    """
    home = context.initialised()
    settings = read_settings(home.settings)
    if not settings.notify.command:
        raise usage(f"set notify.command in {home.settings}, such as: curl -fsS --data-binary @- https://ntfy.sh/TOPIC")
    if test:
        words = letter(home.agent, [Fact("test", "test", "a test by 'minifram notify --test'")], settings.notify.page)
        if problem := deliver(settings.notify.command, words, context.environ):
            raise failure(f"the command did not take it: {problem}")
        return Shown({"agent": home.agent}, "delivered")
    with open(f"{home.data}/notify.lock", "w", encoding="utf-8") as lock:
        if not lock_within(lock.fileno(), 0):
            raise conflict(f"another 'minifram notify' of agent {home.agent!r} runs")
        look(context, home, settings, say) if once else follow(context, home, say)
    return Shown({"agent": home.agent})


def facts(now: Status, page: Iterable[Report]) -> Iterator[Fact]:
    """All that holds; pure."""
    for asked in now.awaiting_approval:
        text = f"a call of {asked.tool} waits for your answer: 'minifram approve {asked.id}'"
        yield Fact(f"approval/{asked.id}", "approval", text)
    for pin in now.pins:
        yield Fact(f"pin/{pin.commit}/{pin.at}", "pinned", f"{pin.branch}@{pin.commit[:12]} is blocked (pinned)")
    if now.is_led and now.level in (Level.GOOD, Level.SAFE):
        yield Fact(f"level/{now.level}", "pinned", f"{now.level} runs in place of main")
    if now.budget and now.budget.usd >= NEAR_END * now.budget.daily_usd:
        yield Fact(f"budget/{now.budget.day}", "budget", f"the budget of the day ({now.budget.day}) is nearly used up")
    if now.budget and now.budget.exhausted:
        yield Fact(f"budget/{now.budget.day}/end", "budget", f"the budget of the day ({now.budget.day}) is used up")
    boot = now.boots[0].started_at if now.boots else ""
    if not now.running and boot and not now.since:  # nobody has stopped it
        yield Fact(f"gone/{boot}", "stopped", "the watcher is gone; 'minifram up' starts it again")
    if now.running and now.failures >= FAILED_STARTS and now.phase != Phase.RUNNING:
        yield Fact("failing", "stopped", f"the agent failed to start {FAILED_STARTS} times in a row or more")
    for trouble in now.troubles:
        if trouble.text.startswith("not sealed"):
            yield Fact(f"seal/{trouble.at}", "seal", "the container could not be sealed, the agent was not started")
    for report in page:
        found = _REPORT.fullmatch(report.title)
        if found and found["why"] != StopReason.AWAITING_APPROVAL.value:  # a question is told of by itself
            key = hashlib.sha256(f"{report.time} {report.title}".encode(errors="replace")).hexdigest()[:16]
            yield Fact(f"report/{key}", found["kind"], report.title)


def look(context: Context, home: AgentPaths, settings: Settings, say: Say) -> Status:
    """Tell what is new. Raises what keeps it from looking."""
    now, told = read_status(home, time.time()), _told(home)
    held = list(facts(now, all_reports(open_repository(home))))
    new = [each for each in held if told is not None and each.key not in told and each.kind in settings.notify.on]
    if new and (
        problem := deliver(
            settings.notify.command or "", letter(home.agent, new, settings.notify.page), context.environ
        )
    ):
        say(f"not told, and tried again at the next look: {problem}")
    elif told != (keys := {each.key for each in held}):
        write_whole(_path(home), json.dumps(sorted(keys)).encode(), mode=0o600)
    return now


def letter(agent: str, new: list[Fact], page: str | None) -> str:
    """JSON on one line, without secrets; it leads to the page of `minifram serve` where the PM has one."""
    items = [{"key": each.key, "kind": each.kind, "text": one_line(redacted(each.text), 300)} for each in new]
    text = f"{agent}: {'; '.join(each['text'] for each in items)}"
    link = f"{page.rstrip('/')}/a/{agent}/now" if page else ""
    words = {"agent": agent, "text": f"{text} {link}".rstrip(), "items": items, "link": link}
    return as_json("notification", words) + "\n"


def deliver(command: str, words: str, environ: Mapping[str, str]) -> str:
    """Why the command did not take it; empty when it did. What it says of itself goes to our stderr."""
    shell, out = ["/bin/sh", "-c", command], subprocess.DEVNULL
    given = _without_keys(environ)
    try:
        subprocess.run(shell, input=words, env=given, text=True, stdout=out, timeout=COMMAND_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return ""


def start_beside(context: Context, settings: Settings, say: Say) -> None:
    """The sender beside an agent that was started, when one is configured. One that runs already goes on."""
    if not settings.notify.command:
        return
    words = keep_command("host", "--agent", context.agent, "notify")
    environ = _without_keys(context.environ) | {"PYTHONPATH": ROOT}
    try:
        with open(f"{context.home.data}/notify.log", "a", encoding="utf-8") as log:
            subprocess.Popen(
                words, env=environ, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
    except OSError as error:  # a notification is worth no start
        say(f"notifications are not sent: {error}")


def follow(context: Context, home: AgentPaths, say: Say, pause: float = LOOK_SECONDS, idle: float = 60.0) -> None:
    """Look again and again, until the agent has not run for `idle` seconds."""
    ran = time.monotonic()
    while time.monotonic() - ran < idle:
        try:
            if look(context, home, read_settings(home.settings), say).running:
                ran = time.monotonic()
        except Exception as error:
            if as_command_error(error) is None:
                raise
            say(f"nothing can be seen at the moment: {error}")
        time.sleep(pause)


def _without_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """The PM's environment, without keys of models."""
    return {name: value for name, value in environ.items() if name not in VARIABLES}


def _path(home: AgentPaths) -> str:
    return f"{home.data}/told.json"


def _told(home: AgentPaths) -> set[str] | None:
    """None before the first look: what holds then is no news."""
    with contextlib.suppress(OSError, ValueError), open(_path(home), encoding="utf-8") as file:
        return set(map(str, json.load(file)))
    return None
