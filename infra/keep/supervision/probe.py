"""A question to the runner, under way: asked and answered without ever waiting, whatever the other end does.

What an answer is worth is said by pure functions. A challenge is written where only a door can read it out: so an
answer that knows it comes from a runner that has just used both doors. What follows is decided elsewhere."""

from __future__ import annotations

import os
import secrets
import socket
from math import inf
from typing import NamedTuple

from infra.keep.active import Runner
from infra.shared.branches import MAIN
from infra.shared.control import MAX_BYTES, REFS, ProbeQuestion, brief, question_line, read_answer
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError
from infra.shared.sockets import control_address

PATIENCE_SECONDS, DOORS_PATIENCE_SECONDS = 5.0, 10.0
CHALLENGE_SECONDS = 5.0
"""For the one git call of a challenge."""
PIECES = 32
"""So many pieces of an answer wake the watcher; a longer dribble is only looked at when something else wakes it."""


class Challenge(NamedTuple):
    """What a correct answer contains."""

    probe: str
    git: str = ""
    """Empty when the doors are not asked."""
    model: str = ""


class Reply(NamedTuple):
    """The answer line, or why there is none."""

    line: bytes = b""
    trouble: str = ""


def begin(runner: Runner, now: float, doors: Paths | None = None, seconds: float | None = None) -> Probe:
    """Ask `runner`; with `doors`, it shall use both of these places' doors first. `now` is monotonic.

    Raises GitError and OSError when the challenge cannot be put where the doors give it out, or there is no descriptor
    left: that is the keep's own trouble and says nothing about the runner."""
    challenge = put_challenge(doors) if doors else Challenge(secrets.token_hex(16))
    patience = DOORS_PATIENCE_SECONDS if doors else PATIENCE_SECONDS
    return Probe(runner, challenge, now + (patience if seconds is None else seconds))


def put_challenge(places: Paths) -> Challenge:
    """Raises GitError, OSError.

    A ref's name is the secret, so no object is made that nobody would ever remove. It is durable before the next one
    is: a ref that a power cut left empty is an error for every program that lists them all."""
    challenge = Challenge(*(secrets.token_hex(16) for _ in Challenge._fields))
    git = Git(places.remote, WATCHER).within(CHALLENGE_SECONDS)
    try:
        git("update-ref", f"{REFS}/{challenge.git}", f"refs/heads/{MAIN}")
    except GitError:  # there is no main, or no commit of it: safe mode runs then, and is asked as well
        nothing = git("hash-object", "-w", "--stdin", stdin=b"")
        git("update-ref", f"{REFS}/{challenge.git}", nothing)
    directory = f"{places.remote}/{REFS}"
    for name in os.listdir(directory):  # by hand, as git does not delete a ref that is broken
        if name != challenge.git:
            os.unlink(f"{directory}/{name}")
    # Not durable: what a power cut takes or empties is written again for the next question.
    with open(f"{places.probe}.new", "w", encoding="ascii") as file:
        file.write(challenge.model)
    os.rename(f"{places.probe}.new", places.probe)
    return challenge


class Probe:
    """One question to one runner, from its asking to its answer."""

    def __init__(self, runner: Runner, challenge: Challenge, deadline: float) -> None:
        self.runner = runner
        self.challenge = challenge
        self.deadline = deadline
        """Monotonic: by then `look` gives a reply."""
        self._unsent = question_line(ProbeQuestion(challenge.probe, bool(challenge.git)))
        self._received = b""
        self._pieces = 0
        self._connected = False
        self._socket: socket.socket | None = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._reply: Reply | None = None
        self._try()

    def fds(self) -> list[int]:
        """What to poll for reading; nothing when only time can tell."""
        waiting = self._socket and self._connected and not self._reply and self._pieces < PIECES
        return [self._socket.fileno()] if self._socket and waiting else []

    def look(self, now: float) -> Reply | None:
        """The reply, once there is one; it stays the same then. Never waits."""
        if not self._reply:
            self._try()
        if not self._reply and now >= self.deadline:
            said = f"only {len(self._received)} bytes of" if self._received else "no"
            self._end(trouble=f"{said} answer in time" + ("" if self._connected else ": it takes no connection"))
        return self._reply

    def close(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket = None

    def _try(self) -> None:
        try:
            if self._socket and not self._connected:
                self._connect(self._socket)
            if self._socket and self._connected:  # not so when somebody else listens
                self._exchange(self._socket)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(trouble=f"its control socket fails: {error.strerror or error}")

    def _connect(self, wire: socket.socket) -> None:
        try:
            wire.connect(control_address(self.runner.boot_id))  # BlockingIOError: its queue is full
        except ConnectionRefusedError:
            self._end(trouble="it does not listen on its control socket")
            return
        self._connected = True
        # Of the process that called listen(2): no other can have come between a name and its owner.
        pid = memoryview(wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)).cast("i")[0]
        if pid != self.runner.pid:
            self._end(trouble=f"process {pid} listens on its control socket; expected {self.runner.pid}")

    def _exchange(self, wire: socket.socket) -> None:
        if self._unsent:
            self._unsent = self._unsent[wire.send(self._unsent, socket.MSG_NOSIGNAL) :]
        while True:
            piece = wire.recv(MAX_BYTES + 1 - len(self._received))
            self._pieces += 1
            self._received += piece
            line, end, _ = self._received.partition(b"\n")
            if end:
                self._end(line=line)
                return
            if not piece:
                what = f"after {len(line)} bytes that end no line" if line else "without a word"
                self._end(trouble=f"it closed its control socket {what}")
                return
            if len(line) > MAX_BYTES:
                self._end(trouble=f"its answer has over {MAX_BYTES} bytes")
                return

    def _end(self, line: bytes = b"", trouble: str = "") -> None:
        self._reply = Reply(line, trouble)
        self.close()


def judge_runner(runner: Runner, reply: Reply, challenge: Challenge, longest: float = inf, held: float = 0.0) -> str:
    """Whether it is the one that was launched, and its main loop keeps its promises, which are `longest` seconds at
    most (`control.longest_promise`). The watcher held it for so long, which is not its fault."""
    if reply.trouble:
        return reply.trouble
    try:
        answer = read_answer(reply.line)
    except ValueError as error:
        return f"its answer cannot be understood: {error}"
    compared = (
        ("the answer to", answer.probe, challenge.probe),
        ("boot", answer.boot_id, runner.boot_id),
        ("process", answer.pid, runner.pid),
        ("branch", answer.branch, runner.branch),
        ("commit", answer.commit, runner.commit),
    )
    for what, said, expected in compared:
        if said != expected:
            return f"it says it is {what} {brief(said)}; expected {brief(expected)}"
    doing, age, within = answer.heart
    if within > longest:
        return f"its main loop promises to be silent for {within:.0f} s while {brief(doing)}; at most {longest:.0f} s"
    if age - held > within:
        return f"its main loop was last heard of {age:.0f} s ago while {brief(doing)}; it had promised {within:.0f} s"
    return ""


def judge_doors(reply: Reply, challenge: Challenge) -> str:
    """Which door it could not use, when they were asked. It may be the door's fault and not the runner's."""
    try:
        answer = read_answer(reply.line)
    except ValueError as error:
        return f"nothing is known of the doors: {reply.trouble or error}"
    said = f" ({brief(answer.trouble)})" if answer.trouble else ""
    if challenge.git and challenge.git not in answer.git.split():
        return f"it did not read through the git door what the watcher wrote there{said}"
    if challenge.model and challenge.model != answer.model:
        return f"it did not read through the model door what the watcher wrote there{said}"
    return ""
