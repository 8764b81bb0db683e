"""Processes of one agent: finding a runner again, ending all that it left, holding the cell.

The watcher is the subreaper of all its descendants (prctl(2)), so a process that forks twice to get away is
handed back to it. Between watchers, a process is known by its boot id in the environment it was started with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator

import psutil

from infra.keep.services.children import KEEPS_GIT, runner_command
from infra.shared import boot as boot_contract
from infra.shared.boot import Boot
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths

SWEEP_SECONDS = 15.0


def start_time(pid: int) -> float | None:
    """The kernel's start time of a living process; None when there is none."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


def is_alive(pid: int, started: float) -> bool:
    """The very process, not one that has its pid now."""
    return pid > 0 and start_time(pid) == started


def is_stopped(pid: int) -> bool:
    """Somebody sent it SIGSTOP, and nobody SIGCONT: it does nothing, and no load of the machine looks like that."""
    return state_of(f"/proc/{pid}") == "T"


def state_of(task: str) -> str:
    """proc(5), stat: the letter after the name, which may hold anything; empty for a task that is gone. Not by psutil,
    which reads the file twice: it is asked at each look."""
    try:
        descriptor = os.open(f"{task}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 512).rpartition(b")")[2][1:2].decode()
        finally:
            os.close(descriptor)
    except OSError:
        return ""


def how_it_ended(returncode: int) -> str:
    """A Popen's return code in words."""
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:  # most of the real-time signals have no name
        return f"signal {-returncode}"


FROM_OUTSIDE = frozenset({0, -signal.SIGTERM, -signal.SIGKILL, -signal.SIGINT, -signal.SIGHUP})
"""Return codes of a runner that somebody else may have ended. Exit status 0 is how it obeys SIGTERM."""


def memory_kills() -> int:
    """How often the kernel has ended a process for want of memory: in this container, else on this machine."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError), open(path, "rb", buffering=0) as file:
            found = _KILLS.search(file.read())
            if found:
                return int(found[1])
    return 0


_KILLS = re.compile(rb"^oom_kill ([0-9]+)$", re.MULTILINE)


def find_runner(boot_id: str) -> tuple[int, float] | None:
    """Pid and start time of the runner that carries this boot id.

    It leads its session and has our command line: an impostor has another id, and what the runner started has another
    command line."""
    for process, boot in _booted() if boot_id else ():
        with contextlib.suppress(psutil.Error, OSError):
            ours = process.cmdline()[1:] in (runner_command()[1:], runner_command(safe=True)[1:])
            if boot.id == boot_id and ours and os.getsid(process.pid) == process.pid:
                return process.pid, process.create_time()
    return None


def _living() -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    """Processes whose environment we may read."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            env = process.environ()
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process, env


def _booted() -> Iterator[tuple[psutil.Process, Boot]]:
    """Living processes that were started within some boot."""
    for process, env in _living():
        with contextlib.suppress(ValueError):
            if boot_contract.VARIABLE in env:
                yield process, boot_contract.from_json(env[boot_contract.VARIABLE])


def _of_boots(places: Paths) -> Iterator[tuple[psutil.Process, str]]:
    """What was started within boots of this agent, with the boot's id. A runner's commands have its HOME and not its
    boot values: with those they could be taken for it."""
    homes = places.home("")
    for process, env in _living():
        home = env.get("HOME", "")
        if home.startswith(homes):
            yield process, home.removeprefix(homes)


def end_strays(places: Paths, but_boot: str) -> list[str]:
    """End what was started within boots of this agent, except boot `but_boot`; gives what was ended.

    For what an earlier watcher and its runners left behind: it is not our descendant, and known by its environment.
    Repeats until none is left, as `sweep` does."""
    deadline = time.monotonic() + SWEEP_SECONDS
    ended: dict[int, str] = {}
    while True:
        strays = [process for process, boot_id in _of_boots(places) if boot_id != but_boot]
        strays += [process for process, env in _living() if env.get(KEEPS_GIT) == places.var]
        if not strays or time.monotonic() > deadline:
            return list(ended.values())
        for stray in strays:
            ended.setdefault(stray.pid, _kill(stray))
        _wait_until_over(strays, deadline)


def end_commands(commands: list[list[str]]) -> list[str]:
    """End processes with exactly one of these command lines; gives what was ended."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cmdline() in commands and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    ended = [_kill(process) for process in found]
    _wait_until_over(found, time.monotonic() + SWEEP_SECONDS)
    return ended


def _wait_until_over(processes: list[psutil.Process], deadline: float) -> None:
    """A zombie is over: another process has to reap it, and may never do so."""
    for process in processes:
        while start_time(process.pid) == process.create_time() and time.monotonic() < deadline:
            time.sleep(0.001)


def ask_group(pid: int, number: signal.Signals) -> None:
    """Signal the session's process group; a group that is gone needs none."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def sweep(keep: frozenset[int], cell: Identity = OURS) -> list[str]:
    """End every descendant but the services `keep` and theirs; gives what was ended.

    Repeats until none is left, because what is being killed may still fork; raises TimeoutError after 15 s. A process
    that forks and exits without rest is in no list for long enough. Where we are process 1, and the cell a user of its
    own, one call to the kernel therefore ends all of that user's first (kill(2), pid -1)."""
    if _is_alone(cell):
        signal_all_of(cell, signal.SIGKILL)
    deadline = time.monotonic() + SWEEP_SECONDS
    ended: dict[int, str] = {}
    while strays := _strays(keep):
        for stray in strays:
            ended.setdefault(stray.pid, _kill(stray))
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(strays)} processes of the runner would not end: {json.dumps(ended)[:500]}")
        time.sleep(0.001)
    return list(ended.values())


def _is_alone(cell: Identity) -> bool:
    """Every process of this user is the cell's."""
    return bool(cell.uid) and os.getpid() == 1


def signal_all_of(who: Identity, number: signal.Signals) -> None:
    """By a process of that user's, which has no right to any other's, and starts no program: the user may have used up
    what the kernel grants for that."""
    try:
        child = os.fork()
    except OSError:  # the caller looks for what is left
        return
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(who.gid or 0, who.gid or 0, who.gid or 0)
            os.setresuid(who.uid or 0, who.uid or 0, who.uid or 0)
            if os.getuid() == who.uid:
                os.kill(-1, number)  # all but the sender (kill(2))
        os._exit(0)
    os.waitpid(child, 0)


HOLD_ROUNDS = 5
"""A process that is not stopped yet may fork; each round stops what the last one did not see."""


def hold(keep: frozenset[int], cell: Identity = OURS, runner: int = 0) -> None:
    """Stop all of the cell's: every descendant but `keep` and theirs, and the runner, which may be nobody's child."""
    if _is_alone(cell):
        signal_all_of(cell, signal.SIGSTOP)
        return
    held: set[int] = set()
    for _ in range(HOLD_ROUNDS):
        for each in _of_cell(keep, runner):
            if each.pid not in held:
                held.add(each.pid)
                with contextlib.suppress(psutil.Error):
                    each.suspend()


def let_go(keep: frozenset[int], cell: Identity = OURS, runner: int = 0) -> None:
    """Resume all of the cell's that `hold` stopped."""
    if _is_alone(cell):
        signal_all_of(cell, signal.SIGCONT)
        return
    for each in _of_cell(keep, runner):
        with contextlib.suppress(psutil.Error):
            each.resume()


def let_go_after_restart(places: Paths) -> None:
    """The same for what an earlier watcher held, known by its environment."""
    for process, _ in _of_boots(places):
        with contextlib.suppress(psutil.Error):
            process.resume()


def _of_cell(keep: frozenset[int], runner: int) -> list[psutil.Process]:
    found = _strays(keep)
    if runner and runner not in {each.pid for each in found}:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(runner)
            found += [process, *process.children(recursive=True)]
    return found


def reap_orphans(ours: frozenset[int]) -> None:
    """Reap what was handed to us, so that no zombies gather; `ours` are waited for elsewhere."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in ours:
                return
            _reap(ended.si_pid)


def _strays(keep: frozenset[int]) -> list[psutil.Process]:
    """Descendants that live, but the services and theirs. Our own zombies are reaped on the way."""
    me, kept, found = os.getpid(), set(keep), []
    for process in psutil.Process().children(recursive=True):  # a parent comes before its children
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = process.ppid()
            if process.pid in kept or parent in kept:
                kept.add(process.pid)
            elif process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif parent == me:
                _reap(process.pid)
    return found


def _kill(process: psutil.Process) -> str:
    try:
        name = f"{process.pid} {process.name()}"
        process.kill()
    except psutil.Error:  # it is gone, or we may not: then it is there still when we look again
        return str(process.pid)
    return name


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
