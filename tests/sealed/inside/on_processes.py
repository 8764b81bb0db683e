"""S01 to S03: attempts on the processes of the keep, by what the kernel offers against a process."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket

from .calls import Attempts, syscall, unhurt

ATTEMPTS = Attempts()
_refused = "EPERM"
_PTRACE_ATTACH, _PTRACE_SEIZE, _PTRACE_DETACH = 16, 0x4206, 17


# S01: look into it, change it


@ATTEMPTS.on_keep("S01", "ptrace: attach", _refused)
def _attach(pid: int) -> None:
    syscall("ptrace", _PTRACE_ATTACH, pid, 0, 0)
    os.waitpid(pid, os.WUNTRACED)
    syscall("ptrace", _PTRACE_DETACH, pid, 0, 0)


@ATTEMPTS.on_keep("S01", "prlimit: no more files for it", _refused)
def _limit(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))


@ATTEMPTS.on_keep("S01", "setpriority: last in line", _refused, "EACCES")
def _priority(pid: int) -> None:
    os.setpriority(os.PRIO_PROCESS, pid, 19)


# S02: end it, stop it


@ATTEMPTS.on_keep("S02", "kill", _refused)
def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)


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
