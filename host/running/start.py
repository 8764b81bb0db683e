"""Starting the watcher, in whatever sandbox, and waiting until its agent works.

What an earlier watcher left behind, or what another command starts at the same moment, is never taken for the one
that was started here: its word counts while it holds the lock, and is newer than the start."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from host.display import Say
from host.errors import CommandError, failure
from host.paths import AgentPaths
from host.running.watcher import POLL_SECONDS, UNKNOWN, already_running, glimpse, holder, last_words
from infra.shared import arguments, watcher_file
from infra.shared.exit_codes import Exit
from infra.shared.watcher_file import BRANCH_LEVEL, MAIN_LEVEL, SAFE_LEVEL, Pin, WatcherFile

UP_SECONDS = 90.0
GIVEN_UP_AFTER = 3
"""Failed launches in a row after which `up` stops waiting for one that works; each version that is pinned meanwhile
gives as many to the next in its place."""


class Running(NamedTuple):
    """A watcher whose agent works."""

    pid: int
    branch: str
    commit: str
    boot_id: str
    seconds: float
    level: str = MAIN_LEVEL


def version_words(branch: str, commit: str, level: str) -> str:
    """`branch@commit`, unless nothing of the repository's runs."""
    at = f"{branch}@{commit[:12]}"
    if level == SAFE_LEVEL:
        return f"{level} in place of {at}"
    return at if level in (BRANCH_LEVEL, MAIN_LEVEL) else f"{at} ({level})"


def exit_of(level: str) -> Exit:
    """An agent of which only safe mode is left works, and needs its PM."""
    return Exit.FINDINGS if level == SAFE_LEVEL else Exit.OK


class Started(Protocol):
    """A watcher that was just started: `subprocess.Popen` is one."""

    @property
    def pid(self) -> int:
        """As we count processes."""

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""


class NotYet(CommandError):
    """The watcher is at work, and its agent does not work; `what` was seen."""

    def __init__(self, home: AgentPaths, pid: int, what: str) -> None:
        super().__init__(
            Exit.FAILURE,
            f"{what}; the watcher (pid {pid}) goes on trying. See 'minifram logs'; "
            f"'minifram down' ends it; {last_words(home)}",
        )
        self.what = what


class Before(NamedTuple):
    """What an earlier watcher left, so as not to take it for this one's."""

    stamp: object
    failures: int
    pins: frozenset[Pin]


def before_start(home: AgentPaths) -> Before:
    stamp = _stamp(home)
    try:
        state = glimpse(home) or WatcherFile()
    except ValueError:  # the watcher sets such a file aside and starts without it
        state = WatcherFile()
    return Before(stamp, state.failures, frozenset(state.pins))


def keep_environment(environ: Mapping[str, str], root: str) -> dict[str, str]:
    """The whole environment of the keep's programs: no key of the PM's is in it."""
    kept = {name: environ[name] for name in ("PATH", "LANG", "HOME", "TMPDIR") if name in environ}
    return {"LANG": "C.UTF-8"} | kept | {"PYTHONPATH": root}


def start(home: AgentPaths, program: tuple[str, ...], environ: dict[str, str], seconds: float, say: Say) -> Running:
    """Start `program` as the agent's watcher, in a session of its own, and wait until its agent works.

    Raises CommandError; a watcher that is at work but not successful yet is left to its attempts."""
    for _ in range(2):
        before = before_start(home)
        process = _spawn(home, program, environ)
        say(f"watcher started (pid {process.pid}); waiting for the agent to boot")
        ended = wait_until_running(home, process, before, seconds, say)
        if isinstance(ended, Running):
            return ended
        pid = holder(home.places.watcher_lock)
        if ended != Exit.CONFLICT or pid is not None:
            break
        # It met another command's glance at the lock, which is over now.
    if ended == Exit.CONFLICT:
        raise already_running(home, pid)
    raise failure(f"the watcher ended at once with {ended}; {last_words(home)}")


def _spawn(home: AgentPaths, program: tuple[str, ...], environ: dict[str, str]) -> subprocess.Popen[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    output = os.open(home.watcher_output, flags, 0o600)
    try:
        return subprocess.Popen(
            [*program, *arguments.words(home.settings, home.places)],
            cwd="/",
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)


def wait_until_running(
    home: AgentPaths, process: Started, before: Before, seconds: float, say: Say, in_container: bool = False
) -> Running | int:
    """Running, or the watcher's exit status. Raises CommandError when it takes too long or fails too often."""
    # A container's name is its agent's alone: what holds the lock while it runs is in it.
    ours = (process.pid, UNKNOWN) if in_container else (process.pid,)
    began, told = time.monotonic(), ""
    while (status := process.poll()) is None:
        # A file from an earlier watcher, or from one that another command starts now, is not this one's word.
        state = glimpse(home) if _stamp(home) != before.stamp else None
        if state is not None and holder(home.places.watcher_lock, in_container) in ours:
            failed = f", {state.failures} failed so far" if state.failures else ""
            version = f" {version_words(state.branch, state.commit, state.level)}" if state.branch else ""
            if told != (text := f"{state.phase}{version}{failed}"):
                say(told := text)
            if state.phase == watcher_file.RUNNING:
                spent = time.monotonic() - began
                return Running(process.pid, state.branch, state.commit, state.boot_id, spent, state.level)
            since = state.failures if state.failures < before.failures else state.failures - before.failures
            if since >= GIVEN_UP_AFTER * (1 + len({*state.pins} - before.pins)):
                raise NotYet(home, process.pid, f"the agent failed to boot {since} times in a row")
        if time.monotonic() - began > seconds:
            raise NotYet(home, process.pid, f"the agent has not booted within {seconds:g} s")
        time.sleep(POLL_SECONDS)
    return status


def _stamp(home: AgentPaths) -> object:
    """Another value whenever the watcher has written its state again: it replaces the file."""
    try:
        status = os.stat(home.places.watcher_state)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
