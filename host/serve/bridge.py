"""The one way from `serve` into an agent's sandbox: a program of the cell's user that carries out tools and jobs there,
spoken to in lines of JSON on its standard input and output. No program of the host can reach the doors."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import select
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from host.home import Context
from host.running import PODMAN, holder
from host.serve.calls import Problem
from infra.cell.actions import ERROR_TYPES, EXECUTION, TIMEOUT, UNAVAILABLE, VALIDATION
from infra.cell.bridge import Bounds, BridgeAnswer, BridgeRequest, Hello
from infra.cell.tools.tool import Position
from infra.cell.tools.web import web_tools
from infra.keep.programs import keep_command, keep_environment
from infra.keep.settings.check import read_settings
from infra.keep.settings.schema import runner_acts
from infra.keep.timing import Timing
from infra.shared.conversation import ToolSpec
from infra.shared.paths import CONTAINER

TOOL_SECONDS = 330.0
"""Longer than any of the tools may take."""
MOST_CALLS = 8
"""Under way at once, each in a thread of the server: a cell that answers none takes no more of them."""
LINE_BYTES = 6 << 20
"""The longest answer that is read; any result of a tool is shorter, with its image."""
MOST_WAITING, LOOK_SECONDS = 16, 1.0
"""Answers that nobody has taken; while there are so many, no others are read, and the cell waits. How often it is
looked then whether anybody still waits for them."""
PROGRAM = "infra.cell.bridge"


class BridgeGone(Exception):
    """The program in the sandbox has ended, or cannot be started: the agent is not up."""

    def __init__(self, words: str, was_begun: bool) -> None:
        super().__init__(words)
        self.was_begun = was_begun
        """Whether anything may have been done."""


class Bridge:
    """To one agent. It starts when it is first needed, and again after it has ended; any thread may ask."""

    def __init__(self, context: Context) -> None:
        self._context, self._home = context, context.home
        self._lock, self._room = threading.Lock(), threading.Semaphore(MOST_CALLS)
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: int | None = None
        self._answers = dict[str, queue.Queue[BridgeAnswer | None]]()
        self._numbers = itertools.count(1)

    def tool(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """A call of a tool, as the loop would make it: `content`, and the fields of a trace. Raises Problem."""
        if name not in [each.name for each in self.specs()]:
            raise Problem(VALIDATION, f"there is no tool {name[:40]!r}", 404)
        if not self._room.acquire(blocking=False):
            raise Problem(UNAVAILABLE, f"{MOST_CALLS} calls are under way already", retriable=True)
        request = BridgeRequest(f"tool-{next(self._numbers)}", "tool", name, given)
        try:
            end = deque(self._asked(request, TOOL_SECONDS), 1)[0].end or {}
        except BridgeGone as gone:
            raise Problem(UNAVAILABLE, str(gone), retriable=True) from None
        except queue.Empty:
            raise Problem(TIMEOUT, f"{name} has not ended within {TOOL_SECONDS:g} s", retriable=True) from None
        finally:
            self._room.release()
        if "error" in end:
            raise problem_in(end)
        return end | {"content": str(end.get("content"))}

    def run(self, id: str, task: str, bounds: Bounds) -> Iterator[BridgeAnswer]:
        """The lines of a job's trace, and at last its `end`. Raises BridgeGone."""
        try:
            seconds = bounds.max_wall_time_ms / 1000 + TOOL_SECONDS
            yield from self._asked(BridgeRequest(id, "run", task=task, bounds=bounds), seconds)
        except queue.Empty:
            self.cancel(id)
            yield BridgeAnswer(id, end=Problem(TIMEOUT, "the job did not end in its time", retriable=True).as_json())

    def specs(self) -> list[ToolSpec]:
        """The tools that others may call, as the loop's model is told of them. Raises SettingsError."""
        limits = Timing().limits_of(read_settings(self._home.settings))
        return [tool.spec for tool in web_tools("", "", Position(), limits)]

    def cancel(self, id: str) -> None:
        with contextlib.suppress(BridgeGone, OSError):
            self._send(BridgeRequest(id, "cancel"))

    def close(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.stdin.close()  # type: ignore[union-attr]  # the program ends with its input
                process.wait(5.0)
            process.kill()

    def _asked(self, request: BridgeRequest, seconds: float) -> Iterator[BridgeAnswer]:
        answers: queue.Queue[BridgeAnswer | None] = queue.Queue(MOST_WAITING)
        try:
            self._send(request, answers)
            while answer := answers.get(timeout=seconds):
                yield answer
                if answer.end is not None:
                    return
            raise BridgeGone(f"agent {self._home.agent!r} went down meanwhile", was_begun=True)
        finally:
            self._answers.pop(request.id, None)

    def _send(self, request: BridgeRequest, answers: queue.Queue[BridgeAnswer | None] | None = None) -> None:
        with self._lock:
            if (watcher := holder(self._home.places.watcher_lock)) is None:
                raise BridgeGone(f"agent {self._home.agent!r} is not running; 'minifram up' starts it", was_begun=False)
            if self._process is None or self._process.poll() is not None or watcher != self._watcher:
                if self._process:
                    self._process.kill()  # of another start of the agent: its settings may be others
                self._process, self._watcher = self._started(), watcher
            if answers is not None:
                self._answers[request.id] = answers
            try:
                write_within(self._process, msgspec.json.encode(request) + b"\n")
            except OSError as error:
                self._process.kill()
                raise BridgeGone(f"the sandbox of {self._home.agent!r} does not listen: {error}", False) from None

    def _started(self) -> subprocess.Popen[bytes]:
        home = self._home
        settings = read_settings(home.settings)
        is_contained = settings.sandbox == PODMAN
        places = CONTAINER if is_contained else home.places
        hello = Hello(places, settings.policy, Timing().limits_of(settings), runner_acts(settings))
        words, environ = keep_command(PROGRAM), keep_environment(self._context.environ)
        if is_contained:
            from host.container.container import podman_of
            from host.container.words import cell_words

            podman = podman_of(self._context)
            words = [podman.program, *podman.words, *cell_words(home.agent, PROGRAM)]
            environ = podman.environ
        process = subprocess.Popen(
            words, env=environ, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        write_within(process, msgspec.json.encode(hello) + b"\n")
        self._answers = {}  # who waits for the process before is told by its own listener
        threading.Thread(target=self._listen, args=(process, self._answers), daemon=True).start()
        return process

    @staticmethod
    def _listen(process: subprocess.Popen[bytes], answers: dict[str, queue.Queue[BridgeAnswer | None]]) -> None:
        """What it says is the cell's word: a line that is none of ours is passed over."""
        while line := process.stdout.readline(LINE_BYTES):  # type: ignore[union-attr]
            with contextlib.suppress(msgspec.MsgspecError, ValueError, RecursionError):
                answer = msgspec.json.decode(line, type=BridgeAnswer)
                _hand_over(answers, answer.id, answer)
        process.wait()
        for id in list(answers):
            _hand_over(answers, id, None)


def _hand_over(answers: dict[str, queue.Queue[BridgeAnswer | None]], id: str, answer: BridgeAnswer | None) -> None:
    """As soon as there is room for it, or nobody waits for it any more."""
    while waiting := answers.get(id):
        with contextlib.suppress(queue.Full):
            waiting.put(answer, timeout=LOOK_SECONDS)
            return


def write_within(process: subprocess.Popen[bytes], content: bytes, seconds: float = 5.0) -> None:
    """The cell can stop the program: a pipe that it does not empty is waited for so long. Raises OSError."""
    descriptor, until, ready = process.stdin.fileno(), time.monotonic() + seconds, select.poll()  # type: ignore[union-attr]
    ready.register(descriptor, select.POLLOUT)
    while content:
        if not ready.poll(max(0.0, until - time.monotonic()) * 1000):
            raise TimeoutError("it takes no request")
        content = content[os.write(descriptor, content[: select.PIPE_BUF]) :]


def problem_in(end: dict[str, Any]) -> Problem:
    """What the cell says went wrong."""
    kind = end["error"] if end["error"] in ERROR_TYPES else EXECUTION
    words, hint = str(end.get("message", "")), str(end.get("hint", ""))
    return Problem(kind, words, retriable=end.get("retriable") is True, hint=hint)
