"""Whose processor time it is: the processes of the cell, what the watcher has waited for, the container's own count.

A process is the cell's by its user, where the cell has one of its own; else by descent from the watcher or the runner,
or by the boot of this agent in its environment. Files of `/proc` that are read for any process hold no lock of its
memory, so a process cannot keep us waiting; its environment is read only where the cell shares our user."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from infra.keep.limits.values import TICKS, Process
from infra.shared import boot as boot_contract
from infra.shared.identity import Identity
from infra.shared.paths import Paths

LOOKED_AT = 10_000
ENVIRONMENT_BYTES = 256 * 1024
NAME_CHARS = 32
GROUP = "/sys/fs/cgroup"


class Listed(NamedTuple):
    """A line of the process table."""

    process: Process
    parent: int


def table(left_out: list[str]) -> dict[int, Listed]:
    """Pid -> process, of all that can be seen. Raises OSError when there is no /proc."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    if len(pids) > LOOKED_AT:
        left_out.append(f"processes: there are {len(pids)}, {LOOKED_AT} are looked at")
    found = {}
    for pid in pids[:LOOKED_AT]:
        seen = parsed_stat(_read(f"/proc/{pid}/stat", 4096))
        if seen:
            found[pid] = seen
    return found


def parsed_stat(content: bytes) -> Listed | None:
    """A line of /proc/PID/stat (proc(5)); None for what is none. The name may hold anything, `)` and newlines too."""
    head, opened, rest = content.partition(b"(")
    name, closed, numbers = rest.rpartition(b")")
    fields = numbers.split()
    try:
        if not (opened and closed):
            return None
        user, system, waited_user, waited_system = (int(field) for field in fields[11:15])
        shown = ascii(name.decode(errors="replace"))[1:-1][:NAME_CHARS]
        own, children = (user + system) / TICKS, max(0, waited_user + waited_system) / TICKS
        return Listed(Process(int(head), int(fields[19]), shown, own, children), int(fields[1]))
    except (ValueError, IndexError):
        return None


def of_user(every: Mapping[int, Listed], uid: int) -> set[int]:
    """Pids whose user is, or can become again, that one."""
    found = set()
    for pid in every:
        # The owner of /proc/PID is the effective user only; these are all that it may become again.
        _, _, rest = _read(f"/proc/{pid}/status", 4096).partition(b"\nUid:\t")
        if str(uid).encode() in rest.partition(b"\n")[0].split()[:3]:
            found.add(pid)
    return found


def of_agent(every: Mapping[int, Listed], runner_pid: int, keep: Collection[int], places: Paths) -> set[int]:
    """Pids of what descends from us or from the runner (0 for none), or carries a boot of this agent; never us, nor the
    keep's."""
    children: dict[int, list[int]] = {}
    for pid, seen in every.items():
        children.setdefault(seen.parent, []).append(pid)
    kept = {os.getpid(), *(pid for kept in keep for pid in _and_below(kept, children))}
    found = set(_and_below(os.getpid(), children))
    if runner_pid:  # all but a few descend from process 0
        found |= set(_and_below(runner_pid, children))
    rest = [pid for pid in every if pid not in found | kept and _is_of_boot(pid, places)]
    for pid in rest:
        found.update(_and_below(pid, children))
    return {pid for pid in found - kept if pid in every}


def _and_below(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    """A process and all its descendants. The table is no snapshot and may have rings in it."""
    waiting, met = [pid], {0, pid}
    while waiting:
        current = waiting.pop()
        yield current
        new = [child for child in children.get(current, ()) if child not in met]
        met.update(new)
        waiting += new


def _is_of_boot(pid: int, places: Paths) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
    except OSError:
        return False
    start = f"{boot_contract.VARIABLE}=".encode()
    for word in _read(f"/proc/{pid}/environ", ENVIRONMENT_BYTES).split(b"\0"):
        if word.startswith(start):
            try:
                return boot_contract.from_json(word[len(start) :].decode()).places == places
            except ValueError:
                return False
    return False


def chosen(
    every: Mapping[int, Listed], cell: Identity, runner_pid: int, keep: Collection[int], places: Paths
) -> tuple[Process, ...]:
    """The cell's processes."""
    pids = of_agent(every, runner_pid, keep, places) if cell.uid is None else of_user(every, cell.uid)
    return tuple(every[pid].process for pid in sorted(pids))


def group_seconds(every: Mapping[int, Listed], cells: Collection[Process], directory: str = GROUP) -> float | None:
    """Processor seconds of our control group without those of the keep, which is all that is not the cell's.

    None where the group is not one container's alone: the machine's own, or one with processes that we do not see."""
    if not os.path.exists(f"{directory}/cgroup.type"):
        return None
    members = _read(f"{directory}/cgroup.procs", 1 << 20).split()
    if not members or b"0" in members:
        return None
    used = [line.split() for line in _read(f"{directory}/cpu.stat", 4096).splitlines()]
    total = next((int(words[1]) for words in used if words[:1] == [b"usage_usec"] and len(words) == 2), None)
    if total is None:
        return None
    pids = {process.pid for process in cells}
    keep = [seen.process for pid, seen in every.items() if pid not in pids]
    # What we have waited for ourselves was nearly all the cell's.
    kept = sum(process.own + (0 if process.pid == os.getpid() else process.children) for process in keep)
    return total / 1e6 - kept


def cores(directory: str | None = GROUP) -> float:
    """Processors that we, and so the cell, may use: of a container with a bound, that bound."""
    here = float(len(os.sched_getaffinity(0)))
    if directory is None:
        return here
    words = _read(f"{directory}/cpu.max", 100).split()
    try:
        return min(here, int(words[0]) / int(words[1]))
    except (ValueError, IndexError, ZeroDivisionError):  # `max`: no bound
        return here


def end(process: Process) -> bool:
    """End this process and no other that has its pid by now; whether it was there."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        seen = parsed_stat(_read(f"/proc/{process.pid}/stat", 4096))
        if seen is None or seen.process.started != process.started:
            return False
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def _read(path: str, most: int) -> bytes:
    """Of `/proc` or the control group, which never block; nothing for what is gone meanwhile or closed to us."""
    try:
        # A file object would ask the kernel three more things of each, and there are hundreds.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = b""
            while piece := os.read(descriptor, most - len(content)):
                content += piece
            return content
        finally:
            os.close(descriptor)
    except OSError:
        return b""
