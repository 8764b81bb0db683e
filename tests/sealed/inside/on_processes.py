"""S01 to S03: attempts on the processes of the keep, by what the kernel offers against a process."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct

from .calls import Attempts, syscall, unhurt

ATTEMPTS = Attempts()
_refused = "EPERM"
_PTRACE_ATTACH, _PTRACE_SEIZE, _PTRACE_DETACH = 16, 0x4206, 17
_SI_QUEUE = -1


# S01: look into it, change it


@ATTEMPTS.on_keep("S01", "ptrace: attach", _refused)
def _attach(pid: int) -> None:
    syscall("ptrace", _PTRACE_ATTACH, pid, 0, 0)
    os.waitpid(pid, os.WUNTRACED)
    syscall("ptrace", _PTRACE_DETACH, pid, 0, 0)


@ATTEMPTS.on_keep("S01", "ptrace: seize", _refused)
def _seize(pid: int) -> None:
    syscall("ptrace", _PTRACE_SEIZE, pid, 0, 0)


def _copy(name: str, pid: int) -> None:
    """Read or write one byte at an address that a fork has in common with its parent."""
    own = ctypes.create_string_buffer(8)
    vector = struct.pack("QQ", ctypes.addressof(own), 1)
    syscall(name, pid, vector, 1, vector, 1, 0)


@ATTEMPTS.on_keep("S01", "process_vm_readv", _refused)
def _read_memory(pid: int) -> None:
    _copy("process_vm_readv", pid)


@ATTEMPTS.on_keep("S01", "process_vm_writev", _refused)
def _write_memory(pid: int) -> None:
    _copy("process_vm_writev", pid)


@ATTEMPTS.on_keep("S01", "pidfd_getfd: take a descriptor", _refused)
def _take_descriptor(pid: int) -> None:
    syscall("pidfd_getfd", os.pidfd_open(pid), 0, 0)


@ATTEMPTS.on_keep("S01", "kcmp", _refused)
def _compare(pid: int) -> None:
    syscall("kcmp", os.getpid(), pid, 0, 0, 0)


@ATTEMPTS.on_keep("S01", "process_madvise: page it out", _refused, free=())
def _page_out(pid: int) -> None:
    vector = struct.pack("QQ", 0, 0)
    syscall("process_madvise", os.pidfd_open(pid), vector, 1, 21, 0)


@ATTEMPTS.on_keep("S01", "prlimit: no more files for it", _refused)
def _limit(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))


@ATTEMPTS.on_keep("S01", "setpriority: last in line", _refused, "EACCES")
def _priority(pid: int) -> None:
    os.setpriority(os.PRIO_PROCESS, pid, 19)


@ATTEMPTS.on_keep("S01", "sched_setscheduler: only when idle", _refused)
def _scheduler(pid: int) -> None:
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


@ATTEMPTS.on_keep("S01", "sched_setaffinity", _refused)
def _affinity(pid: int) -> None:
    os.sched_setaffinity(pid, {min(os.sched_getaffinity(0))})


@ATTEMPTS.on_keep("S01", "ioprio_set: only when idle", _refused)
def _io_priority(pid: int) -> None:
    syscall("ioprio_set", 1, pid, 3 << 13)


# S02: end it, stop it


@ATTEMPTS.on_keep("S02", "kill", _refused)
def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)


@ATTEMPTS.on_keep("S02", "kill its process group", _refused, "ESRCH")  # process 1 leads none that can be seen
def _kill_group(pid: int) -> None:
    if os.getpgid(pid) == os.getpgid(0):
        os.setpgid(pid, pid)
    os.killpg(os.getpgid(pid), signal.SIGCONT)


@ATTEMPTS.on_keep("S02", "tgkill", _refused)
def _kill_thread(pid: int) -> None:
    syscall("tgkill", pid, pid, int(signal.SIGTERM))


def _information() -> bytes:
    return struct.pack("iii", signal.SIGTERM, 0, _SI_QUEUE).ljust(128, b"\0")


@ATTEMPTS.on_keep("S02", "rt_sigqueueinfo", _refused)
def _queue(pid: int) -> None:
    syscall("rt_sigqueueinfo", pid, int(signal.SIGTERM), _information())


@ATTEMPTS.on_keep("S02", "rt_tgsigqueueinfo", _refused)
def _queue_thread(pid: int) -> None:
    syscall("rt_tgsigqueueinfo", pid, pid, int(signal.SIGTERM), _information())


@ATTEMPTS.on_keep("S02", "pidfd_send_signal", _refused)
def _by_descriptor(pid: int) -> None:
    signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGTERM)


@ATTEMPTS.on_keep("S02", "kill -1", "unhurt", in_place=True)  # it spares none of this user but the caller
def _kill_all(pid: int) -> str | None:
    os.kill(-1, signal.SIGKILL)
    return None if unhurt(pid) == "hurt" else "unhurt"


@ATTEMPTS.on_keep("S02", "F_SETOWN: let the kernel send SIGKILL", "unhurt", _refused)
def _by_socket(pid: int) -> str | None:
    mine, other = socket.socketpair()
    fcntl.fcntl(mine, fcntl.F_SETOWN, pid)
    fcntl.fcntl(mine, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(mine, fcntl.F_SETFL, fcntl.fcntl(mine, fcntl.F_GETFL) | os.O_ASYNC)
    other.send(b"x")
    return None if unhurt(pid) == "hurt" else "unhurt"


# S03: read what /proc tells of it

_LINKS = ("cwd", "root", "exe", "ns/net", "ns/user")
_FOLDERS = ("fd", "fdinfo", "map_files")
_FILES = ("environ", "mem", "maps", "smaps", "numa_maps", "pagemap", "auxv", "io", "syscall", "personality")
_TO_WRITE = ("mem", "clear_refs", "oom_score_adj", "coredump_filter", "autogroup", "uid_map")


def _in_proc(name: str, way: str) -> None:
    @ATTEMPTS.on_keep("S03", f"/proc/<pid>/{name}: {way}", _refused, "EACCES")
    def act(pid: int) -> None:
        path = f"/proc/{pid}/{name}"
        match way:
            case "follow":
                os.readlink(path)
            case "list":
                os.listdir(path)
            case "read":
                with open(path, "rb", buffering=0) as file:
                    if name != "mem":
                        file.read(8)
            case _:
                os.close(os.open(path, os.O_WRONLY))


for _way, _names in {"follow": _LINKS, "list": _FOLDERS, "read": _FILES, "write": _TO_WRITE}.items():
    for _name in _names:
        _in_proc(_name, _way)


@ATTEMPTS.on_keep("S03", "/proc/<pid>/timerslack_ns: write", _refused)  # anyone may open it
def _slack(pid: int) -> None:
    with open(f"/proc/{pid}/timerslack_ns", "w") as file:
        file.write("50000")
