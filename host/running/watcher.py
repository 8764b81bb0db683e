"""The watcher seen from outside: is it running, what does it know, end it. Starting it is `start`'s.

The lock on `watcher.lock` is the truth: it goes with the process that holds it, so a killed watcher leaves none.
What `watcher.json` says is only what the last watcher knew."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from host.display import Say
from host.errors import CommandError, conflict, failure
from host.paths import AgentPaths
from infra.shared.exit_codes import Exit
from infra.shared.safe_files import opened_file, whole_file

if TYPE_CHECKING:
    from infra.shared.watcher_file import WatcherFile

UNKNOWN = 0
"""The pid of a holder that cannot be told."""
POLL_SECONDS = 0.05
DOWN_SECONDS = 60.0
SAME_START_SECONDS = 0.05
_OF_ANY_SCHEMA = {
    "phase": str,
    "branch": str,
    "commit": str,
    "boot_id": str,
    "level": str,
    "rung": str,
    "failures": int,
}


def holder(lock: str, in_container: bool = False) -> int | None:
    """The pid of the watcher that holds the lock; None when none does, `UNKNOWN` when it cannot be told.

    The pid in the file counts only when that process has this very file open: no other is ever signalled. A watcher
    `in_container` counts processes otherwise than we do, and is found where the kernel tells of locks; that pid is for
    looking at, never for signals."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        # Shared, so that two askers do not see each other; let go at once.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        wanted = os.fstat(descriptor)
        written = os.pread(descriptor, 32, 0).strip()
        pids = [int(written)] if written.isdigit() else []
        pids = _pids_with_locks_on(wanted.st_ino) if in_container else pids
        return next((pid for pid in pids if _has_open(pid, wanted)), UNKNOWN)
    finally:
        os.close(descriptor)


def is_locked(lock: str) -> bool | None:
    """Whether some process holds the lock, asked without touching it; None when the kernel does not tell."""
    try:
        inode = os.stat(lock).st_ino
    except FileNotFoundError:
        return False
    return bool(_pids_with_locks_on(inode)) if os.path.exists("/proc/locks") else None


def _pids_with_locks_on(inode: int) -> list[int]:
    """proc_locks(5): `1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> …`, with pids as we count them.

    The device there is not always the one that stat(2) tells, so it is not asked for."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return []
    locks = (row for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[4].isdigit())
    return [int(row[4]) for row in locks if row[5].endswith(f":{inode}")]


def _has_open(pid: int, wanted: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), wanted):
                    return True
    return False


def known_state(home: AgentPaths) -> WatcherFile | None:
    """What the watcher last wrote down; None when it never did. Raises ValueError for what is no such file."""
    from infra.shared import watcher_file  # costs msgspec, which asking for the holder need not pay

    try:
        return watcher_file.decode(whole_file(home.places.watcher_state))
    except FileNotFoundError:
        return None


def glimpse(home: AgentPaths) -> WatcherFile | None:
    """`known_state`, and of a watcher of another version what runs, and no more.

    The command can be newer than the image that runs, and after an upgrade was taken back it is."""
    from infra.shared import watcher_file

    try:
        return known_state(home)
    except ValueError as error:
        try:
            known = json.loads(whole_file(home.places.watcher_state))
        except (OSError, ValueError, RecursionError):
            raise error from None
        if not isinstance(known, dict) or not str(known.get("schema", "")).startswith("minifram.watcher/"):
            raise
        found = {name: known[name] for name, kind in _OF_ANY_SCHEMA.items() if isinstance(known.get(name), kind)}
        return watcher_file.from_fields(found | {"schema": known["schema"]})


def another_code(state: WatcherFile) -> str:
    """That a watcher runs other code than is installed; empty when it does not, or does not say."""
    from infra.shared.running_code import running_code

    if state.code in ("", running_code()):
        return ""
    return (
        "another version of minifram is installed than runs: 'minifram restart' starts the installed one, "
        "'minifram upgrade' tests it first"
    )


def orphan(state: WatcherFile) -> int:
    """The pid of the runner that the last watcher left alive when it was killed; 0 when there is none."""
    import psutil

    with contextlib.suppress(psutil.Error):
        if state.runner_pid > 0:
            started = psutil.Process(state.runner_pid).create_time()
            return state.runner_pid if abs(started - state.runner_started) < SAME_START_SECONDS else 0
    return 0


def stop(home: AgentPaths, seconds: float, say: Say) -> int:
    """Ask the watcher to end, and wait until it has; gives its pid. Raises CommandError, also when there is none."""
    lock = home.places.watcher_lock
    settled = time.monotonic() + 1.0  # for a watcher that has taken the lock and not yet written its pid
    while (pid := holder(lock)) == UNKNOWN and time.monotonic() < settled:
        time.sleep(POLL_SECONDS)
    if pid is None:
        raise not_running(home)
    if pid == UNKNOWN:
        named = f"{lock} is locked, but not by the process it names"
        raise conflict(f"{named}; find it with 'fuser {lock}' and end it yourself")
    ask_to_end(lock, pid)
    say(f"asked the watcher (pid {pid}) to end the agent and itself")
    deadline, told = time.monotonic() + seconds, time.monotonic()
    while holder(lock) is not None:
        now = time.monotonic()
        if now > deadline:
            raise failure(
                f"the watcher (pid {pid}) has not ended within {seconds:g} s; it was asked to and may still be ending "
                f"the agent's processes: look with 'minifram logs', wait longer with 'minifram down --timeout 120'"
            )
        if now - told > 5:
            say(f"still waiting; at most {deadline - now:.0f} s more")
            told = now
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


@contextlib.contextmanager
def kept_down(home: AgentPaths, why: str) -> Iterator[None]:
    """The agent does not run, and nobody starts it meanwhile; `why` it must not, in words behind "it". Raises
    CommandError."""
    os.makedirs(home.state, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(home.places.watcher_lock, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise conflict(
                f"the agent is running, and {why}: 'minifram down' first, then this again, then 'minifram up'; nothing "
                "was changed"
            ) from None
        yield
    finally:
        os.close(descriptor)


def already_running(home: AgentPaths, pid: int | None) -> CommandError:
    named = f"agent {home.agent!r} is already running (watcher {f'pid {pid}' if pid else 'pid unknown'})"
    return conflict(f"{named}; see 'minifram status', or use 'minifram restart'")


def not_running(home: AgentPaths) -> CommandError:
    """With what is left of it, if anything is."""
    try:
        state = known_state(home)
    except (OSError, ValueError):  # `doctor` says so; here it is enough that nothing runs
        state = None
    text = f"agent {home.agent!r} is not running; 'minifram up' starts it"
    if state and (left := orphan(state)):
        text = (
            f"the watcher of agent {home.agent!r} was killed, and its runner (pid {left}) lives on, unwatched; "
            "'minifram up' takes it over, then 'minifram down' ends both"
        )
    return CommandError(Exit.NOT_RUNNING, text)


def last_words(home: AgentPaths) -> str:
    """The watcher's newest troubles and the end of what it wrote to stderr, for an error message."""
    lines: list[str] = []
    try:
        state = known_state(home)
    except (OSError, ValueError) as error:
        lines.append(str(error))
    else:
        lines += [f"{trouble.at} {trouble.text}" for trouble in state.troubles[-3:]] if state else []
    lines += _complaints_of_doors(home)
    lines += _end_of(home.watcher_output)[-15:]
    shown = "\n".join(f"  {line}" for line in lines) if lines else "  it wrote no output"
    return f"its last words (more in {home.watcher_output} and {home.places.watcher_log}):\n{shown}"


def _complaints_of_doors(home: AgentPaths) -> list[str]:
    """What kept a door from opening since the last `up`: the reason behind a runner's "door does not answer"."""
    found: dict[str, str] = {}
    with contextlib.suppress(FileNotFoundError):
        since = os.stat(home.started_file).st_mtime
        for line in _end_of(home.doors_log):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                entry = json.loads(line)
                event, reason, at = entry["event"], entry["reason"], entry["timestamp"]
                if datetime.fromisoformat(at).timestamp() >= since:
                    found[reason] = f"{at} {event}: {reason}"
    return list(found.values())[-2:]


def _end_of(path: str) -> list[str]:
    try:
        with opened_file(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            return file.read(4096).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except ValueError as error:
        return [str(error)]
