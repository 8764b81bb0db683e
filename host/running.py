"""The watcher seen from outside: start it, wait until its agent works, ask whether it runs, end it.

The lock on `watcher.lock` is the truth: it goes with the process that holds it, so a killed watcher leaves none. What
`watcher.json` says is only what the last watcher knew, and counts while the lock is held and the file is newer than the
start."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import time
from subprocess import DEVNULL, Popen
from typing import TYPE_CHECKING, NamedTuple

from host.errors import CommandError, conflict, failure, not_running
from host.home import AgentPaths
from host.screen import Say
from infra.keep import arguments
from infra.keep.running_code import running_code
from infra.keep.settings.models import KEYS
from infra.shared.exit_codes import Exit
from infra.shared.paths import EYE_SOCKET
from infra.shared.safe_files import opened_file, whole_file

if TYPE_CHECKING:
    from host.container.container import FirstProcess
    from infra.keep.settings.schema import Settings
    from infra.keep.watcher_file import State

PODMAN, PROCESS = "podman", "process"
"""The sandboxes."""
NO_BROWSER = "its container does not run: no page is rendered; 'minifram restart' starts it"
UNKNOWN = 0
"""The pid of a holder that cannot be told: a watcher in a container counts processes otherwise than we do."""
POLL_SECONDS = 0.05
UP_SECONDS, DOWN_SECONDS = 90.0, 60.0


def holder(lock: str) -> int | None:
    """The pid of the watcher that holds the lock; None when none does, `UNKNOWN` when it cannot be told.

    The pid in the file counts only when that process has this very file open: no other is ever signalled."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # Shared, so that two askers do not see each other; let go at once.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        written = os.pread(descriptor, 32, 0).strip()
        pid = int(written) if written.isdigit() else UNKNOWN
        return pid if _has_open(pid, os.fstat(descriptor)) else UNKNOWN
    finally:
        os.close(descriptor)


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), wanted):
                    return True
    return False


def is_running(home: AgentPaths) -> bool:
    return holder(home.places.watcher_lock) is not None


def sandbox_of(home: AgentPaths) -> str:
    """The sandbox that the settings name; podman where they cannot be read."""
    from infra.keep.settings.check import SettingsError, read_settings

    try:
        return read_settings(home.settings).sandbox
    except SettingsError:
        return PODMAN


def browser_words(home: AgentPaths, settings: Settings) -> str:
    """How the agent's browser is isolated, and how not, or that it is gone; empty where it has none."""
    if settings.web.browser == "off":
        return ""
    if settings.sandbox == PROCESS:
        return "chromium runs as your own user: a page that breaks out of its sandbox reaches your files"
    from host.container.words import shared_directory

    if is_running(home) and not _listens(shared_directory(home), os.path.basename(EYE_SOCKET)):
        return NO_BROWSER
    return "chromium in a container of its own, with no network but the web door's proxy"


def _listens(place: str, name: str) -> bool:
    """Whether anybody serves that socket. Who asks for datagrams is told that others do there, and not served."""
    with contextlib.suppress(OSError):
        directory = os.open(place, os.O_PATH | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
                # A socket's path must be short.
                return wire.connect_ex(f"/proc/self/fd/{directory}/{name}") == errno.EPROTOTYPE
        finally:
            os.close(directory)
    return False


def keys_in_use(home: AgentPaths) -> tuple[str, ...]:
    """The names of the keys that the agent was given."""
    return tuple(key for key in KEYS if os.path.lexists(home.key_file(key)))


def known_state(home: AgentPaths) -> State | None:
    """What the watcher last wrote down; None when it never did. Raises ValueError for what is no such file."""
    from infra.keep import watcher_file

    try:
        return watcher_file.decode(whole_file(home.places.watcher_state))
    except FileNotFoundError:
        return None


def another_code(state: State) -> str:
    """That a watcher runs other code than is installed; empty when it does not, or does not say."""
    if state.code in ("", running_code()):
        return ""
    return "another version of minifram is installed than runs: 'minifram restart' starts the installed one"


class Running(NamedTuple):
    """A watcher whose agent works."""

    pid: int
    branch: str
    commit: str
    seconds: float
    level: str
    """What runs: `main`, or what stands in for it."""


def start(home: AgentPaths, program: tuple[str, ...], environ: dict[str, str], seconds: float, say: Say) -> Running:
    """Start `program` as the agent's watcher, in a session of its own, and wait until its agent works.

    Raises CommandError; a watcher that is at work but not successful yet is left to its attempts."""
    before = stamp(home)
    process = _spawn(home, program, environ)
    say(f"watcher started (pid {process.pid}); waiting for the agent to boot")
    ended = wait_until_running(home, process, before, seconds, say)
    if isinstance(ended, Running):
        return ended
    if ended == Exit.CONFLICT:
        raise already_running(home)
    raise failure(f"the watcher ended at once with {ended}; {last_words(home)}")


def _spawn(home: AgentPaths, program: tuple[str, ...], environ: dict[str, str]) -> Popen[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    output = os.open(home.watcher_output, flags, 0o600)
    try:
        return Popen(
            [*program, *arguments.words(home.settings, home.places)],
            cwd="/",
            env=environ,
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    finally:
        os.close(output)


def wait_until_running(
    home: AgentPaths, process: Popen[bytes] | FirstProcess, before: object, seconds: float, say: Say
) -> Running | int:
    """Running, or the watcher's exit status; `before` is the `stamp` that an earlier watcher left. Raises CommandError
    when it takes too long."""
    from infra.keep.watcher_file import Phase

    began, told = time.monotonic(), ""
    while (status := process.poll()) is None:
        # A file from an earlier watcher, or from one that another command starts now, is not this one's word.
        state = _readable_state(home) if stamp(home) != before else None
        if state is not None and holder(home.places.watcher_lock) in (process.pid, UNKNOWN):
            failed = f", {state.failures} failed so far" if state.failures else ""
            runner = state.active
            version = f" {version_words(runner.branch, runner.commit, runner.level)}" if runner.branch else ""
            if told != (text := f"{state.phase.value}{version}{failed}"):
                say(told := text)
            if state.phase is Phase.RUNNING:
                return Running(process.pid, runner.branch, runner.commit, time.monotonic() - began, runner.level)
        if time.monotonic() - began > seconds:
            raise failure(
                f"the agent has not booted within {seconds:g} s; the watcher (pid {process.pid}) goes on trying. "
                f"See 'minifram logs'; 'minifram down' ends it; {last_words(home)}"
            )
        time.sleep(POLL_SECONDS)
    return status


def version_words(branch: str, commit: str, level: str) -> str:
    """`branch@commit`, unless nothing of the repository's runs."""
    from infra.keep.watcher_file import Level

    at = f"{branch}@{commit[:12]}"
    if level == Level.SAFE:
        return f"{level} in place of {at}"
    return at if level in (Level.BRANCH, Level.MAIN) else f"{at} ({level})"


def _readable_state(home: AgentPaths) -> State | None:
    try:
        return known_state(home)
    except ValueError:  # the watcher sets such a file aside and starts without it
        return None


def stamp(home: AgentPaths) -> object:
    """Another value whenever the watcher has written its state again: it replaces the file."""
    try:
        status = os.stat(home.places.watcher_state)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def stop(home: AgentPaths, seconds: float, say: Say) -> int:
    """Ask the watcher to end, and wait until it has; gives its pid. Raises CommandError, also when there is none."""
    lock = home.places.watcher_lock
    settled = time.monotonic() + 1.0  # for a watcher that has taken the lock and not yet written its pid
    while (pid := holder(lock)) == UNKNOWN and time.monotonic() < settled:
        time.sleep(POLL_SECONDS)
    if pid is None:
        raise not_running(f"agent {home.agent!r} is not running; 'minifram up' starts it")
    if pid == UNKNOWN:
        raise conflict(
            f"{lock} is locked, but not by the process it names; find it with 'fuser {lock}' and end it yourself"
        )
    ask_to_end(lock, pid)
    say(f"asked the watcher (pid {pid}) to end the agent and itself")
    deadline = time.monotonic() + seconds
    while holder(lock) is not None:
        if time.monotonic() > deadline:
            raise failure(
                f"the watcher (pid {pid}) has not ended within {seconds:g} s; it was asked to and may still be ending "
                f"the agent's processes: look with 'minifram logs', wait longer with 'minifram down --timeout 120'"
            )
        time.sleep(POLL_SECONDS)
    return pid


def ask_to_end(lock: str, pid: int) -> None:
    """SIGTERM through a pidfd that was opened while the process still held the lock: no other can get it."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            if holder(lock) == pid:
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)


def already_running(home: AgentPaths) -> CommandError:
    pid = holder(home.places.watcher_lock)
    named = f"agent {home.agent!r} is already running{f' (watcher pid {pid})' if pid else ''}"
    return conflict(f"{named}; see 'minifram status', or use 'minifram restart'")


def last_words(home: AgentPaths) -> str:
    """The watcher's newest troubles and the end of what it wrote to stderr."""
    state = _readable_state(home)
    lines = [f"{trouble.at} {trouble.text}" for trouble in state.troubles[-3:]] if state else []
    lines += _end_of(home.watcher_output)[-15:]
    shown = "\n".join(f"  {line}" for line in lines) if lines else "  it wrote no output"
    return f"its last words (more in {home.watcher_output}, {home.places.watcher_log} and {home.doors_log}):\n{shown}"


def _end_of(path: str) -> list[str]:
    try:
        with opened_file(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            return file.read(4096).decode(errors="replace").splitlines()
    except (FileNotFoundError, ValueError):
        return []
