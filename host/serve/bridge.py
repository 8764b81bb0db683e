"""The one way from `serve` into an agent's sandbox: a program of the cell's user that carries out tools and jobs there,
spoken to in lines of JSON on its standard input and output. No program of the host can reach the doors."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from host.running import PODMAN, is_running
from host.serve.agents import Agent
from host.serve.calls import Problem
from infra.cell.actions import TIMEOUT, UNAVAILABLE
from infra.cell.bridge import Hello
from infra.cell.tools.tool import Position
from infra.cell.tools.web import web_tools
from infra.keep.programs import keep_command, keep_environment
from infra.keep.settings.check import SettingsError, read_settings
from infra.keep.settings.schema import runner_acts
from infra.keep.timing import Timing
from infra.shared.conversation import ToolSpec
from infra.shared.paths import CONTAINER

if TYPE_CHECKING:
    from host.serve.jobs import Bounds

TOOL_SECONDS = 300.0
"""Longer than any of the tools may take."""
LINE_BYTES = 4 << 20
PROGRAM = "infra.cell.bridge"


class BridgeGone(Exception):
    """The program in the sandbox has ended, or cannot be started: the agent is not up."""

    def __init__(self, words: str, was_begun: bool) -> None:
        super().__init__(words)
        self.was_begun = was_begun
        """Whether anything may have been done."""


class Bridge:
    """To one agent. It starts when it is first needed, and again after it has ended; any thread may ask."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = dict[str, queue.SimpleQueue[dict[str, Any] | None]]()
        self._numbers = itertools.count(1)

    def tool(self, name: str, given: Any) -> dict[str, Any]:
        """A call of a tool, as the loop would make it: `content`, and the fields of a trace. Raises Problem."""
        id = f"tool-{next(self._numbers)}"
        try:
            for answer in self._asked(id, {"do": "tool", "name": name, "args": given}, TOOL_SECONDS):
                line = answer["end"]
                if "error" in line:
                    raise Problem(line["error"], line["message"], retriable=True)
                if line["status"] != "ok":
                    kind, retriable = line["error_code"], line["retriable"]
                    raise Problem(kind, line["content"], retriable=retriable, hint=line["hint"])
                return dict(line)
        except BridgeGone as gone:
            raise Problem(UNAVAILABLE, str(gone), retriable=True) from None
        except queue.Empty:
            raise Problem(TIMEOUT, f"{name} has not ended within {TOOL_SECONDS:g} s", retriable=True) from None
        raise Problem(UNAVAILABLE, "the sandbox ended the call", retriable=True)

    def run(self, id: str, task: str, bounds: Bounds) -> Iterator[dict[str, Any]]:
        """The lines of a job's trace, and at last one with its `end`. Raises BridgeGone."""
        seconds = bounds.max_wall_time_ms / 1000 + TOOL_SECONDS
        try:
            yield from self._asked(id, {"do": "run", "task": task, "bounds": bounds._asdict()}, seconds)
        except queue.Empty:
            self.cancel(id)
            yield {"end": Problem(TIMEOUT, "the job did not end in its time", retriable=True).as_json()}

    def cancel(self, id: str) -> None:
        with contextlib.suppress(BridgeGone, OSError):
            self._send({"do": "cancel", "id": id})

    def close(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process:
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]  # the program ends with its input
            process.wait(10.0)

    def _asked(self, id: str, request: dict[str, Any], seconds: float) -> Iterator[dict[str, Any]]:
        answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._answers[id] = answers
        try:
            self._send({"id": id, **request})
            while True:
                answer = answers.get(timeout=seconds)
                if answer is None:
                    raise BridgeGone(f"agent {self._agent.name!r} went down meanwhile", was_begun=True)
                yield answer
                if "end" in answer:
                    return
        finally:
            self._answers.pop(id, None)

    def _send(self, request: dict[str, Any]) -> None:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._process = self._started()
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
                self._process.stdin.flush()  # type: ignore[union-attr]
            except OSError as error:
                raise BridgeGone(f"the sandbox of {self._agent.name!r} does not listen: {error}", False) from None

    def _started(self) -> subprocess.Popen[bytes]:
        """Raises BridgeGone."""
        home = self._agent.home
        if not is_running(home):
            raise BridgeGone(f"agent {home.agent!r} is not running; 'minifram up' starts it", was_begun=False)
        try:
            settings = read_settings(home.settings)
        except SettingsError as error:
            raise BridgeGone(str(error), was_begun=False) from None
        is_contained = settings.sandbox == PODMAN
        places = CONTAINER if is_contained else home.places
        hello = Hello(places, settings.policy, Timing().limits_of(settings), runner_acts(settings))
        words, environ = keep_command(PROGRAM), keep_environment(self._agent.context.environ)
        if is_contained:
            from host.container.container import podman_of
            from host.container.words import cell_words

            podman = podman_of(self._agent.context)
            words = [podman.program, *podman.words, *cell_words(home.agent, PROGRAM)]
            environ = podman.environ
        process = subprocess.Popen(
            words, env=environ, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        process.stdin.write(msgspec.json.encode(hello) + b"\n")  # type: ignore[union-attr]
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """What it says is the cell's word: a line that is none of ours is passed over."""
        while line := process.stdout.readline(LINE_BYTES):  # type: ignore[union-attr]
            with contextlib.suppress(ValueError, KeyError, TypeError):
                answer = json.loads(line)
                self._answers[answer.pop("id")].put(answer)
        process.wait()
        for waiting in list(self._answers.values()):
            waiting.put(None)


class Bridges:
    """Those of all agents."""

    def __init__(self) -> None:
        self._bridges = dict[str, Bridge]()

    def of(self, agent: Agent) -> Bridge:
        return self._bridges.setdefault(agent.name, Bridge(agent))

    @staticmethod
    def tools() -> list[ToolSpec]:
        """Those that others may call, as the loop's model is told of them."""
        return [tool.spec for tool in web_tools("", "", 0, Position())]

    def close(self) -> None:
        for bridge in self._bridges.values():
            bridge.close()
