"""Processes of one agent: starting a runner, finding it again, ending all that it left.

The watcher is the subreaper of all its descendants (prctl(2)), so a process that forks twice to get away is
handed back to it. Between watchers, a process is known by its boot id in the environment it was started with."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from infra.shared import boot as boot_contract
from infra.shared.boot import Boot
from infra.shared.boot_files import make_home
from infra.shared.identity import OURS, Identity
from infra.shared.people import AGENT
from infra.shared.places import ROOT, Places
from infra.shared.safe_files import Below

_PR_SET_CHILD_SUBREAPER = 36
SWEEP_SECONDS = 15.0
KEEPS_GIT = "MINIFRAM_KEEPS_GIT"
"""In the environment of the watcher's own git calls on clones: its state's directory. So one that outlives a killed
watcher is known, and ended before the next one works on the same clone."""


def become_subreaper() -> None:
    """Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) was refused")


def runner_command(python: str = sys.executable, safe: bool = False) -> list[str]:
    """`-E -s`: no PYTHON* variable and no user site directory; the checkout is the first place modules come from.

    In safe mode that is the keep's own code, which the cell may read and nobody there can change."""
    if safe:
        return [python, "-E", "-s", "-P", "-c", _SAFELY]
    return [python, "-E", "-s", "-m", "infra.runner"]


"""The keep's own code."""
_SAFELY = f"import runpy, sys; sys.path.insert(0, {ROOT!r}); runpy.run_module('infra.runner', run_name='__main__')"


def cell_environment(boot: Boot, python: str = sys.executable) -> dict[str, str]:
    """The whole environment of a runner and of all that it starts."""
    tools = os.path.dirname(python)
    return {
        boot_contract.VARIABLE: boot_contract.to_json(boot),
        "PATH": f"{tools}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "HOME": boot.places.home(boot.id),
        "PIP_CONFIG_FILE": os.devnull,
        "GIT_CONFIG_GLOBAL": boot.places.cell_git_config,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        # The git door takes no other committer, and a clone's own user.name would be one.
        "GIT_COMMITTER_NAME": AGENT.name,
        "GIT_COMMITTER_EMAIL": AGENT.email,
    } | ({"TMPDIR": os.environ["TMPDIR"]} if "TMPDIR" in os.environ else {})


def spawn(boot: Boot, command: list[str], error_log: int, cell: Identity = OURS) -> subprocess.Popen[bytes]:
    """Start the runner of `boot` as the cell, in its checkout and a session of its own. Raises OSError."""
    make_home(Below(boot.places.bot, cell), boot.places.home(boot.id))
    with cell.acting():  # it may be alone in being allowed into its directory
        process = subprocess.Popen(
            command,
            cwd=boot.places.checkout(boot.branch),
            env=cell_environment(boot, command[0]),
            stdin=subprocess.DEVNULL,
            stdout=error_log,
            stderr=error_log,
            start_new_session=True,
            **cell.for_child,
        )
        _let_it_go_first(process.pid)
    return process


_FIRST_TO_GO = "1000"


def _let_it_go_first(pid: int) -> None:
    """When memory is short, the kernel is to end the runner and what it started, and not the keep (proc(5),
    oom_score_adj). Written from here, before the interpreter has read a line of the checkout; all children inherit it.
    Who runs there may set it back to ours, never below."""
    # It may have ended already, or this kernel not have it: that is no reason not to run.
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as file:
        file.write(_FIRST_TO_GO)


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
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


def is_over(pidfd: int) -> bool:
    """True once the process has ended, reaped or not."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


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
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            counts = dict(line.split(maxsplit=1) for line in file)
            if "oom_kill" in counts:
                return int(counts["oom_kill"])
    return 0


def find_runner(boot_id: str) -> tuple[int, float] | None:
    """Pid and start time of the runner that carries this boot id.

    It leads its session and was started with our command line: what merely looks like a runner has another id, and
    what the runner started has another command line."""
    if not boot_id:
        return None
    for process, boot in _booted():
        try:
            ours = process.cmdline()[1:] in (runner_command()[1:], runner_command(safe=True)[1:])
            if boot.id == boot_id and ours and os.getsid(process.pid) == process.pid:
                return process.pid, process.create_time()
        except (psutil.Error, OSError):
            continue
    return None


def _booted() -> Iterator[tuple[psutil.Process, Boot]]:
    """Living processes that were started within some boot."""
    for process in psutil.process_iter():
        try:
            text = process.environ().get(boot_contract.VARIABLE)
            if text and process.status() != psutil.STATUS_ZOMBIE:
                yield process, boot_contract.from_json(text)
        except (psutil.Error, OSError, ValueError):
            continue


def end_strays(places: Places, but_boot: str) -> list[str]:
    """End what was started within boots of this agent, except boot `but_boot`; gives what was ended.

    For what an earlier watcher and its runners left behind: it is not our descendant, and known by its environment.
    Repeats until none is left, as `sweep` does."""
    deadline = time.monotonic() + SWEEP_SECONDS
    ended: dict[int, str] = {}
    while True:
        strays = [process for process, boot in _booted() if boot.places == places and boot.id != but_boot]
        strays += [process for process in psutil.process_iter() if _is_our_git(process, places)]
        if not strays or time.monotonic() > deadline:
            return list(ended.values())
        for stray in strays:
            ended.setdefault(stray.pid, _kill(stray))
        _wait_until_over(strays, deadline)


def _is_our_git(process: psutil.Process, places: Places) -> bool:
    try:
        ours = process.environ().get(KEEPS_GIT) == places.var
        return ours and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def end_commands(commands: list[list[str]]) -> list[str]:
    """End processes with exactly one of these command lines; gives what was ended."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cmdline() in commands and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    ended = [_kill(process) for process in found]
    _wait_until_over(found, time.monotonic() + SWEEP_SECONDS)
    return ended


def _wait_until_over(processes: list[psutil.Process], deadline: float) -> None:
    """A zombie is over: it is somebody else's to reap, and they may never do so."""
    for process in processes:
        while start_time(process.pid) == process.create_time() and time.monotonic() < deadline:
            time.sleep(0.001)


def ask_group(pid: int, number: signal.Signals) -> None:
    """Signal the session's process group; a group that is gone needs none."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def sweep(keep: frozenset[int], cell: Identity = OURS) -> list[str]:
    """End every descendant but the services `keep` and theirs; gives what was ended.

    Repeats until none is left, because what is being killed may still fork; raises TimeoutError after 15 s. One that
    forks and leaves without rest is in no list for long enough. Where we are process 1, and the cell a user of its own,
    all that is that user's is therefore ended in one call to the kernel first (kill(2), pid -1)."""
    if cell.uid and os.getpid() == 1:
        _end_all_of(cell)
    deadline = time.monotonic() + SWEEP_SECONDS
    ended: dict[int, str] = {}
    while strays := _strays(keep):
        for stray in strays:
            ended.setdefault(stray.pid, _kill(stray))
        _reap(keep)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(strays)} processes of the runner would not end: {json.dumps(ended)[:500]}")
        time.sleep(0.001)
    return list(ended.values())


def _end_all_of(cell: Identity) -> None:
    signal_all_of(cell, signal.SIGKILL)


def signal_all_of(who: Identity, number: signal.Signals) -> None:
    """By a process of that user's, which has no right to anybody else's, and starts no program: the user may have used
    up what the kernel grants for that."""
    try:
        child = os.fork()
    except OSError:  # whoever asks looks for what is left
        return
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setresgid(who.gid or 0, who.gid or 0, who.gid or 0)
            os.setresuid(who.uid or 0, who.uid or 0, who.uid or 0)
            if os.getuid() == who.uid:
                os.kill(-1, number)  # all but the one that asks (kill(2))
        os._exit(0)
    os.waitpid(child, 0)


HOLD_ROUNDS = 5
"""Who is not stopped yet may fork; each round stops what the last one did not see."""


def hold(keep: frozenset[int], cell: Identity = OURS, runner: int = 0) -> None:
    """Stop all of the cell's: every descendant but `keep` and theirs, and the runner, which may be nobody's child."""
    if cell.uid and os.getpid() == 1:
        signal_all_of(cell, signal.SIGSTOP)
        return
    held: set[int] = set()
    for _ in range(HOLD_ROUNDS):
        found = [each for each in _of_cell(keep, runner) if each.pid not in held]
        if not found:
            return
        for each in found:
            held.add(each.pid)
            with contextlib.suppress(psutil.Error):
                each.suspend()


def let_go(keep: frozenset[int], cell: Identity = OURS, runner: int = 0) -> None:
    """Let all of the cell's go on that `hold` stopped."""
    if cell.uid and os.getpid() == 1:
        signal_all_of(cell, signal.SIGCONT)
        return
    for each in _of_cell(keep, runner):
        with contextlib.suppress(psutil.Error):
            each.resume()


def let_go_after_restart(places: Places) -> None:
    """The same for what an earlier watcher held, known by its environment."""
    for process, boot in _booted():
        if boot.places == places:
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
    """Take note of the end of what was handed to us, so that no zombies gather; `ours` are waited for elsewhere."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in ours:
            return
        _wait_for(ended.si_pid)


def _strays(keep: frozenset[int]) -> list[psutil.Process]:
    """Descendants that live, but the services and theirs. Our own zombies are reaped on the way."""
    me, kept, found = os.getpid(), set(keep), []
    for process in psutil.Process().children(recursive=True):  # a parent comes before its children
        try:
            parent = process.ppid()
            if process.pid in kept or parent in kept:
                kept.add(process.pid)
            elif process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
            elif parent == me:
                _wait_for(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


def _kill(process: psutil.Process) -> str:
    try:
        name = f"{process.pid} {process.name()}"
        process.kill()
    except psutil.Error:  # it is gone, or we may not: then it is there still when we look again
        return str(process.pid)
    return name


def _reap(keep: frozenset[int]) -> None:
    for child in psutil.Process().children():
        if child.pid not in keep:
            _wait_for(child.pid)


def _wait_for(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
