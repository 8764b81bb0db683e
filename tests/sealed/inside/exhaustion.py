"""S28: the agent uses up what it can; the keep goes on.

    python3.11 -m inside.exhaustion            as process 1: prints `[{"id", "attempt", "result"}, …]`
    python3.11 -m inside.exhaustion processes  as the agent: use them up, say how many there were, hold them

The keep goes on when, under each shortage, it can still start a program, write its own state, open files and sockets,
and end every process of the agent's. Each shortage is real: the agent says which error ended it."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from .calls import become, in_child

AGENT = 1000
STATE = "/run/minifram"  # a directory of the keep's own
SECONDS = 5.0  # more than any of this takes; a keep that waits for the agent waits for ever

_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


# --- the agent -----------------------------------------------------------------------------------


def _processes() -> Iterator[object]:
    while True:
        if os.fork() == 0:
            signal.pause()
        yield None


def _descriptors() -> Iterator[object]:
    while True:
        yield os.open("/", os.O_RDONLY)


def _inotify() -> Iterator[object]:
    while True:
        yield _check(_libc.inotify_init1(os.O_CLOEXEC))


def _space(folder: str) -> Callable[[], Iterator[object]]:
    def fill() -> Iterator[object]:
        with open(f"{folder}/fill", "wb", buffering=0) as file:
            while True:
                yield file.write(bytes(1 << 20))

    return fill


def _shared_memory() -> Iterator[object]:
    """It stays when its processes are gone: only the limit of the IPC namespace bounds it."""
    while True:
        segment = _check(_libc.shmget(0, 1 << 20, 0o600))
        address = _libc.shmat(segment, None, 0)
        ctypes.memset(address, 1, 1 << 20)
        yield _libc.shmctl(segment, 0, None)  # gone when the last process is: so that the test leaves nothing


SHORTAGES: dict[str, Callable[[], Iterator[object]]] = {
    "processes": _processes,
    "descriptors": _descriptors,
    "inotify instances": _inotify,
    "System V shared memory": _shared_memory,
    "space in /tmp": _space("/tmp"),
    "space in /dev/shm": _space("/dev/shm"),
}


def _use_up(shortage: str) -> None:
    held = []
    source = SHORTAGES[shortage]()
    try:
        while True:
            held.append(next(source))
    except OSError as error:
        print(errno.errorcode[error.errno or 0], len(held), flush=True)
    while True:
        signal.pause()


# --- the keep ------------------------------------------------------------------------------------


def _goes_on() -> None:
    """What the watcher must be able to do whatever the agent does."""
    subprocess.run(["true"], check=True, timeout=SECONDS)
    with tempfile.TemporaryDirectory(dir=STATE) as folder, ExitStack() as files:
        with open(f"{folder}/state", "wb") as state:
            state.write(bytes(100_000))
            os.fsync(state.fileno())
        door = files.enter_context(socket.socket(socket.AF_UNIX))
        door.bind(f"{folder}/door")
        for number in range(50):
            files.enter_context(open(f"{folder}/{number}", "w"))


def _end_the_agent() -> None:
    def act() -> str:
        become(AGENT)
        os.kill(-1, signal.SIGKILL)
        return "ended"

    in_child(act)
    until = time.monotonic() + SECONDS
    while _lives(AGENT):
        if time.monotonic() > until:
            raise TimeoutError("the agent's processes do not end")
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            time.sleep(0.01)


def _lives(uid: int) -> bool:
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                return True
        except FileNotFoundError:
            pass
    return False


def _under(shortage: str) -> str:
    agent = subprocess.Popen(
        [sys.executable, "-m", "inside.exhaustion", shortage],
        stdout=subprocess.PIPE,
        text=True,
        user=AGENT,
        group=AGENT,
        extra_groups=(),
        cwd="/",
    )
    assert agent.stdout
    ended_by = agent.stdout.readline().split()
    try:
        if not ended_by:
            return "no shortage was made"
        _goes_on()
        return f"the keep goes on ({' '.join(ended_by)})"
    except Exception as error:
        return f"{error!r} ({' '.join(ended_by)})"
    finally:
        _end_the_agent()
        for folder in ("/tmp", "/dev/shm"):
            for name in os.listdir(folder):
                os.unlink(f"{folder}/{name}")


def main() -> None:
    match sys.argv[1:]:
        case [shortage]:
            _use_up(shortage)
        case _:
            if resource.getrlimit(resource.RLIMIT_NPROC)[0] == resource.RLIM_INFINITY:
                raise SystemExit("processes have no limit here: there would be no end to them")
            rows = [{"id": "S28", "attempt": f"use up {name}", "result": _under(name)} for name in SHORTAGES]
            json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
