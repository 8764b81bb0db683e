"""Whether a door answers: each is asked, again and again, for the smallest thing that it does for everybody.

Nothing here waits for a door: a question is under way from one look of the watcher to the next. Only where a door's
queue is full does it wait some milliseconds for a place, as the kernel gives one to nobody else."""

from __future__ import annotations

import os
import re
import socket
from math import inf
from typing import NamedTuple

import psutil

from infra.keep.services.elapsed import Elapsed, next_beat
from infra.keep.services.processes import state_of
from infra.shared.sockets import wait_in_line

CHECK_SECONDS = 3.0
"""Between an answer and the next question."""
WAIT_SECONDS = 1.0
"""While an answer is awaited, the watcher looks at least so often."""
LINE_SECONDS = 0.02
ANSWER_BYTES = 4096


class HealthQuestion(NamedTuple):
    """What a door is asked, and what its answer begins with."""

    words: bytes
    answer: re.Pattern[bytes]


OF_DOOR = HealthQuestion(b'{"do":"health"}\n', re.compile(rb'\{"answer"'))


def of_git_daemon(path: str) -> HealthQuestion:
    """Which refs the repository at `path` has; the first bytes are enough, and a refusal is an answer too. The flush
    packet at the end ends the session, so nothing is logged."""
    request = f"git-upload-pack {path}\0host=127.0.0.1\0".encode()
    return HealthQuestion(b"%04x" % (len(request) + 4) + request + b"0000", re.compile(rb"[0-9a-f]{4}[^\n]"))


class HealthCheck:
    """The questions to one process of one door, one at a time. Moments are monotonic."""

    def __init__(self, address: str | tuple[str, int], question: HealthQuestion) -> None:
        self._address = address
        self._question = question
        self._wire: socket.socket | None = None
        self._unsent = b""
        self._received = b""
        self._silence = Elapsed()
        self._is_asking = False
        self._looked = -inf
        self._next = -inf
        self.answered = False
        """At least once."""
        self.answered_anew = False
        """Since `ask_anew`."""
        self.is_gone = False
        """At the last try there was no socket at its place."""

    def due(self) -> float:
        """When to look, should nothing come before."""
        return self._looked + WAIT_SECONDS if self._is_asking else self._next

    def fds(self) -> list[int]:
        """What to poll for reading."""
        return [self._wire.fileno()] if self._wire else []

    def ask_anew(self) -> None:
        """`answered_anew` is to be of a question that is asked from now on."""
        self.close()
        self.answered_anew, self._next = False, -inf

    def look(self, at: float) -> float:
        """Ask when it is time, hear what has come; gives for how long it has not answered. Never waits."""
        self._looked = at
        if not self._is_asking and at < self._next:
            return self._silence.looks(at, False)
        if not self._is_asking:
            self._is_asking, self._silence = True, Elapsed()
        try:
            if self._wire is None:
                self._connect()
            if self._wire and self._hears(self._wire):
                self.close()
                self.answered = self.answered_anew = True
                self._is_asking, self._next = False, next_beat(at, CHECK_SECONDS)
        except BlockingIOError:  # the queue is full, or there is nothing to read yet
            pass
        except OSError as error:  # asked again at the next look
            self.close()
            if isinstance(error, ConnectionResetError | BrokenPipeError):
                self._silence = Elapsed()  # it lets go of what is too much for it, and so is not mute
        return self._silence.looks(at, self._is_asking)

    def close(self) -> None:
        if self._wire:
            self._wire.close()
        self._wire = None

    def _connect(self) -> None:
        self.is_gone = False
        wire = socket.socket(socket.AF_UNIX if isinstance(self._address, str) else socket.AF_INET)
        try:
            if isinstance(self._address, str):
                wait_in_line(wire, LINE_SECONDS)
                wire.connect(self._address)
                wire.setblocking(False)
            else:
                wire.setblocking(False)
                wire.connect_ex(self._address)  # what comes of it is seen when the question is sent
        except OSError as error:
            self.is_gone = isinstance(error, FileNotFoundError)
            wire.close()
            raise
        self._wire, self._unsent, self._received = wire, self._question.words, b""

    def _hears(self, wire: socket.socket) -> bool:
        """The whole beginning of an answer is there. Raises OSError, also for an end before that."""
        if self._unsent:
            self._unsent = self._unsent[wire.send(self._unsent, socket.MSG_NOSIGNAL) :]
        while not self._question.answer.match(self._received):
            piece = wire.recv(ANSWER_BYTES)
            self._received += piece
            if not piece or len(self._received) > ANSWER_BYTES:
                raise ConnectionResetError
        return True


def is_busy(pid: int) -> bool:
    """It, or what it has started, would run or waits for a disk: it is slow, or the machine is, and not mute."""
    try:
        tasks = [f"/proc/{pid}/task/{name}" for name in os.listdir(f"/proc/{pid}/task")]
        tasks += [f"/proc/{child.pid}" for child in psutil.Process(pid).children()]
    except (psutil.Error, OSError):
        return False
    return any(state_of(task) in ("R", "D") for task in tasks)
