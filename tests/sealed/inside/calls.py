"""System calls by name, and the attempts that are made of them.

An attempt is tried in a child of its own, so that none spoils the next; its answer is `ok`, the name of an error or of
a signal, or a word or two of its own."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

MACHINES = ("x86_64", "aarch64")
NUMBERS: dict[str, tuple[int, int]] = {  # on each of them; -1 where there is none
    "clone": (56, 220),
    "ioctl": (16, 29),
    "mknodat": (259, 33),
    "personality": (135, 92),
    "ptrace": (101, 117),
    "socket": (41, 198),
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def syscall(name: str, *arguments: Any) -> int:
    """Make the call `name` by its number, past every wrapper; an error is raised as OSError."""
    return numbered(NUMBERS[name][MACHINES.index(platform.machine())], *arguments)


def numbered(number: int, *arguments: Any) -> int:
    """Make the call with this number."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    ctypes.set_errno(0)
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


@dataclass(frozen=True, slots=True)
class World:
    """Where the attempts are made."""

    keep: tuple[int, ...] = ()  # processes of the keep; none in an open container, where attempts bring their own
    open: bool = False  # a container without any of the fences: what is tried must succeed

    @contextmanager
    def victims(self) -> Iterator[tuple[int, ...]]:
        """The processes to attack; in an open container, a child that may be attacked."""
        if not self.open:
            yield self.keep
            return
        child = os.fork()
        if child == 0:
            while True:
                signal.pause()
        try:
            yield (child,)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way out that must be closed."""

    line: str  # its line in the list of attacks
    what: str
    act: Callable[[World], str | None]
    blocked: tuple[str, ...]  # the answers that say it is closed
    free: tuple[str, ...] = ("ok",)  # the answers of the open container; none where it is closed there too
    in_place: bool = False  # not in a child: for what looks at, or spares, the very process


@dataclass(slots=True)
class Attempts:
    """The attempts on one subject, in the order in which they are tried."""

    all: list[Attempt] = field(default_factory=list)

    def add(
        self, line: str, what: str, *blocked: str, free: tuple[str, ...] = ("ok",), in_place: bool = False
    ) -> Callable[[Callable[[World], str | None]], Callable[[World], str | None]]:
        """Decorate a function with what it attempts and the answers that say it is blocked."""

        def register(act: Callable[[World], str | None]) -> Callable[[World], str | None]:
            self.all.append(Attempt(line, what, act, blocked, free, in_place))
            return act

        return register

    def on_keep(
        self, line: str, what: str, *blocked: str, free: tuple[str, ...] = ("ok",), in_place: bool = False
    ) -> Callable[[Callable[[int], str | None]], Callable[[int], str | None]]:
        """The same for a function that attacks one process, by its id: each of the keep's is attacked."""

        def register(act: Callable[[int], str | None]) -> Callable[[int], str | None]:
            def each(world: World) -> str:
                with world.victims() as pids:
                    answers = [_answer_of(lambda pid=pid: act(pid)) for pid in pids]  # type: ignore[misc]
                # The worst of them speaks for all.
                return min(answers, key=blocked.__contains__, default="nobody to attack")

            self.add(line, what, *blocked, free=free, in_place=in_place)(each)
            return act

        return register


def answer(attempt: Attempt, world: World) -> str:
    """What came of it."""

    def act() -> str:
        return _answer_of(lambda: attempt.act(world))

    return act() if attempt.in_place else in_child(act)


def _answer_of(act: Callable[[], str | None]) -> str:
    try:
        return act() or "ok"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, repr(error))


def in_child(act: Callable[[], str], seconds: int = 20) -> str:
    """What `act` gives in a child, or the signal that ended the child."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            signal.alarm(seconds)
            os.write(writing, act().encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else said


def become(user: int) -> None:
    """For ever, in this process."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def state(pid: int) -> str:
    """The letter that the kernel gives for a process: S sleeps, T is stopped, Z is dead."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def unhurt(pid: int, seconds: float = 0.2) -> str:
    """Whether a process goes on, after time enough for a signal to reach it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if state(pid) in "TtZX":
            return "hurt"
        time.sleep(0.01)
    return "unhurt"
