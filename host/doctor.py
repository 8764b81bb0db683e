"""`minifram doctor`: checks of this machine and of one agent. Starts nothing and changes nothing.

A check is a function in one of two tables, and yields findings. What it cannot look at is a finding too. What 'up'
refuses with a reason, such as a directory that others can enter, is not looked at twice."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from host import running
from host.cli import command
from host.errors import CommandError
from host.home import AgentPaths, Context
from host.mind import REF as MIND_REF
from host.repository import git_on, main_commit, open_repository
from host.screen import Say, Shown, bad, counted, harmless
from host.settings import problem_with_model
from host.skills import all_problems, read_skills
from host.status import activity_of, untold
from infra.cell.mind.health import SELF_CHECK, SelfCheck
from infra.cell.mind.memory import PATHS, memory_of
from infra.cell.mind.metrics import FILE as METRICS
from infra.cell.mind.skills import SKILLS
from infra.cell.status import WORKING
from infra.keep.eye.parent import BROWSER
from infra.keep.settings.check import SettingsError, read_settings
from infra.keep.settings.models import KEYS, keys_needed, variable_of
from infra.keep.timing import USUAL
from infra.shared.exit_codes import Exit
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.tip import read_file
from infra.shared.safe_files import Below, opened_file

DISK_BYTES, DISK_RUN_BYTES = 1 << 30, 100 << 20
FSCK_SECONDS = 10.0
MOST_FILE_BYTES = 16 << 20
MOST_NAMED, STALE_TICKS = 3, 3
"""Problems of one kind in a line; the work loop is late after so many ticks without a look."""
_TICK = re.compile(r"^agent_last_tick_timestamp_seconds ([0-9.]{1,20})$", re.MULTILINE)


class Finding(NamedTuple):
    check: str
    text: str


@command
def doctor(context: Context, say: Say) -> Shown:
    """Check this machine and the agent's directories. Exits with 8 on findings, with 4 when there is no agent."""
    home = context.home
    initialised = os.path.lexists(home.remote)
    checks = (*MACHINE, *AGENT) if initialised else MACHINE
    findings = [each for check in checks for each in _findings(check, context)]
    quiet = counted(len(checks) - len({each.check for each in findings}), "check")
    lines = [f"{bad(f'{each.check:<14}')} {harmless(each.text)}" for each in findings]
    value = {"agent": home.agent, "initialised": initialised, "checks": len(checks), "findings": findings}
    advice = "" if initialised else f"agent {home.agent!r} is not initialised: 'minifram init' makes it at {home.data}"
    code = Exit.FINDINGS if findings else Exit.OK if initialised else Exit.NOT_FOUND
    return Shown(value, [*lines, f"{quiet} found nothing"], advice, code)


def _findings(check: Callable[[Context, AgentPaths], Iterator[str]], context: Context) -> Iterator[Finding]:
    name = check.__name__.replace("_", " ").strip()
    try:
        yield from (Finding(name, text) for text in check(context, context.home))
    except SettingsError:  # the check of the settings says it
        return
    except (OSError, ValueError, LookupError, GitError, CommandError) as error:
        yield Finding(name, str(error))


def _git(context: Context, home: AgentPaths) -> Iterator[str]:
    words = Git("/")("version")
    if tuple(map(int, re.findall(r"\d+", words)[:2])) < (2, 38):
        yield f"{words} (needed: 2.38 or newer, for merges without a work tree)"


def _disk(context: Context, home: AgentPaths) -> Iterator[str]:
    for path, least in ((home.data, DISK_BYTES), (home.state, DISK_BYTES), (home.run, DISK_RUN_BYTES)):
        while not os.path.isdir(path):
            path = os.path.dirname(path)
        if (free := shutil.disk_usage(path).free) < least:
            yield f"{free >> 20} MiB free for {path}"


def _podman(context: Context, home: AgentPaths) -> Iterator[str]:
    """What the container of an agent needs of this machine."""
    if os.path.lexists(home.settings) and read_settings(home.settings).sandbox == running.PODMAN:
        from host.container import machine

        yield from machine.lacks(machine.look(context.environ, context.uid))


def _settings(context: Context, home: AgentPaths) -> Iterator[str]:
    try:
        settings = read_settings(home.settings)
    except SettingsError as error:
        yield from str(error).splitlines()
        return
    if settings.egress.mode != "open" and settings.sandbox == running.PROCESS:
        yield f"egress.mode is {settings.egress.mode!r}, which nothing enforces in the process sandbox"
    if settings.web.browser == "on" and settings.sandbox == running.PROCESS:
        yield f"web.browser is on: {running.browser_words(home, settings)}"
        if not os.access(BROWSER, os.X_OK):
            yield f"{BROWSER}, which web.browser needs, is not there; have root run: apt-get install chromium"


def _repository(context: Context, home: AgentPaths) -> Iterator[str]:
    """Whether it is what `minifram init` made, and each object is what its name says: git itself believes the name."""
    main_commit(open_repository(home))
    try:
        git_on(home.remote).within(FSCK_SECONDS)("fsck", "--full", "--no-dangling", "--no-reflogs", "--no-progress")
    except GitError as error:
        if error.status is not None:  # None: there was no time for all objects
            said = [line for line in (error.stdout.decode(errors="replace") + error.stderr).split("\n") if line]
            yield f"git fsck: {_few(said)}: put what is damaged back from a clone of yours"


def _container(context: Context, home: AgentPaths) -> Iterator[str]:
    """Of an agent in a container: nothing may be left when it is down, and its browser's is there while it is up."""
    if running.sandbox_of(home) != running.PODMAN:
        return
    from host.container.container import look, podman_of
    from host.container.words import eye_name

    podman = podman_of(context)
    found = look(podman, home)
    if found and not found.runs:
        yield f"left over ({found.status}, it ended with {found.exit_code}); 'minifram up' or 'down' removes it"
    elif found and not running.is_running(home):
        yield f"running (pid {found.pid}), but no watcher is at work in it (yet)"
    if not (found and found.runs):
        if look(podman, home, eye_name(home.agent)):
            yield "the browser's is left over; 'minifram down' removes it"
    elif running.browser_words(home, read_settings(home.settings)) == running.NO_BROWSER:
        yield f"of the browser: {running.NO_BROWSER}"


def _model(context: Context, home: AgentPaths) -> Iterator[str]:
    """What stands in the way of who thinks, by the settings, and by the keys while the agent runs."""
    settings = read_settings(home.settings)
    if problem := problem_with_model(home, settings.model, settings.sandbox):
        yield problem
    there = running.keys_in_use(home)
    if running.is_running(home) and (lost := [key for key in keys_needed(settings.model, there) if key not in there]):
        yield f"{' and '.join(map(variable_of, lost))} is not set, and 'minifram up' needs it"


def _keys(context: Context, home: AgentPaths) -> Iterator[str]:
    """They lie in the runtime directory while the agent runs, and nowhere else."""
    for path in filter(os.path.lexists, map(home.key_file, KEYS)):
        if os.lstat(path).st_mode & 0o077:
            yield f"{path} has mode {os.lstat(path).st_mode & 0o777:04o}; assume that others know the key"
        elif not running.is_running(home):
            yield f"{path} lies there though the agent is down; remove it"


def _watcher(context: Context, home: AgentPaths) -> Iterator[str]:
    lock, in_container = home.places.watcher_lock, running.sandbox_of(home) == running.PODMAN
    pid, state = running.holder(lock), None
    try:
        state = running.known_state(home)
    except (OSError, ValueError) as error:
        yield f"{home.places.watcher_state}: {error}; the watcher starts without it"
    if pid == running.UNKNOWN and not in_container:
        yield f"{lock} is held, but not by the process it names; find it: fuser {lock}"
    elif state:
        yield from untold(state, pid is not None)


def _ledger(context: Context, home: AgentPaths) -> Iterator[str]:
    if os.path.lexists(home.places.ledger):
        opened_file(home.places.ledger).close()
    yield from ()


def _mind(context: Context, home: AgentPaths) -> Iterator[str]:
    """The runner's sandbox, as it sees it from inside once a day; the files of memory and of skills."""
    git = open_repository(home)
    if (tip := resolve_commit(git, MIND_REF)) is None:
        return
    looks: tuple[tuple[str, Callable[[], Iterable[object]]], ...] = (
        (SELF_CHECK, lambda: _self_check(_on_mind(git, tip, SELF_CHECK))),
        ("memory/", lambda: memory_of({path: _on_mind(git, tip, path) for path in PATHS.values()}).problems),
        (SKILLS, lambda: all_problems(read_skills(git, tip))),
    )
    for path, look in looks:
        try:
            if problems := [str(each) for each in look()]:
                yield _few(problems)
        except (ValueError, GitError) as error:  # the others are looked at all the same
            yield f"{path} cannot be read: {error}"


def _self_check(text: str) -> Iterator[str]:
    if text:
        check = msgspec.json.decode(text, type=SelfCheck)
        yield from (f"sandbox, seen at {check.at}: {each}" for each in check.problems)


def _work_loop(context: Context, home: AgentPaths) -> Iterator[str]:
    """Whether the runner still looks for work."""
    state = running.known_state(home)
    tick = _TICK.search(Below(home.places.mind).tail(METRICS, 1 << 20).decode(errors="replace"))
    if state is None or tick is None or not running.is_running(home):
        return
    life, since = activity_of(home, state), time.time() - float(tick[1])
    if since > STALE_TICKS * USUAL.work_seconds and not (life and life.doing == WORKING):
        yield f"looked {since:.0f} s ago, every {USUAL.work_seconds:g} s: it hangs; 'minifram logs', 'minifram restart'"


def _on_mind(git: Git, tip: str, path: str) -> str:
    """A file of the branch; empty for what is missing. Raises GitError."""
    return read_file(git.saying_at_most(MOST_FILE_BYTES), tip, path) or ""


def _few(words: list[str]) -> str:
    return "; ".join(words[:MOST_NAMED]) + (f"; and {len(words) - MOST_NAMED} more" if words[MOST_NAMED:] else "")


MACHINE = (_git, _disk, _podman)
AGENT = (_settings, _repository, _container, _model, _keys, _watcher, _ledger, _mind, _work_loop)
"""Each is called what its function is."""
