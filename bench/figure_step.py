"""One step of the loop without the model: a reply with one `bash` call of `true` is received → the next request, with
its result, is ready to be sent. Ours beside mini-swe-agent's, and both beside running the same shell bare.

Each of them runs in a process of its own that has imported what it needs, and is told when to take its steps. Ours also
takes a thousand in one conversation: the last ones should take no longer than the first."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from bench.peers import program
from bench.stamps import progress
from bench.tables import TIMES_HEAD, Figure, Table, at_most, distance, milliseconds, spread, times_row
from infra.shared.mind.event_log import logged
from infra.shared.paths import ROOT
from infra.shared.safe_files import Below

ROUNDS = 30
STEPS = 10
"""In each round; one conversation."""
LONG_STEPS, LONG_CONVERSATIONS, LONG_LIMIT = 1000, 3, 1.5
OURS, THEIRS = "minifram: loop, toolbox, bash tool", "mini-swe-agent: DefaultAgent, LocalEnvironment"
BASH, SH = 'subprocess.run(["bash", "-c", "true"])', 'subprocess.run(["/bin/sh", "-c", "true"])'
KEPT = "minifram: the same, with its transcript on the disk"
TOLD = "minifram: the same, with the mind's events as well"


def run(directory: Path, rounds: int | None) -> Figure:
    theirs = f"{os.path.dirname(program('mini'))}/python"
    wanted = rounds or ROUNDS
    with contextlib.ExitStack() as cleanup:
        steppers = {
            BASH: _Stepper([sys.executable, "-s", "-P", "-m", "bench.steps_bare", "bash"], directory),
            OURS: _Stepper([sys.executable, "-s", "-P", "-m", "bench.steps_ours", "loop"], directory),
            KEPT: _Stepper([sys.executable, "-s", "-P", "-m", "bench.steps_ours", "transcript"], directory),
            TOLD: _Stepper([sys.executable, "-s", "-P", "-m", "bench.steps_ours", "events"], directory),
            SH: _Stepper([sys.executable, "-s", "-P", "-m", "bench.steps_bare", "/bin/sh"], directory),
            THEIRS: _Stepper([theirs, "-s", "-P", "-m", "bench.steps_mini"], directory),
        }
        for stepper in steppers.values():
            cleanup.callback(stepper.close)
        took: dict[str, list[float]] = {name: [] for name in steppers}
        for stepper in steppers.values():  # what is imported and compiled at the first use
            stepper.steps(3)
        for number in range(wanted):
            progress("step", f"round {number + 1} of {wanted}")
            names = list(steppers)
            by = number % len(names)
            for name in names[by:] + names[:by]:
                took[name] += steppers[name].steps(STEPS)
        early: list[float] = []
        late: list[float] = []
        for number in range(min(wanted, LONG_CONVERSATIONS)):
            progress("step", f"conversation {number + 1} of {min(wanted, LONG_CONVERSATIONS)}, {LONG_STEPS} steps")
            every = steppers[OURS].steps(LONG_STEPS)
            early += every[STEPS // 2 : STEPS // 2 + STEPS]
            late += every[-STEPS:]
    return _figure(took, early, late, _event_bytes(directory / "mind"))


def _event_bytes(mind: Path) -> int:
    """Of an event, in the mean."""
    lines = [line.raw for line in logged(Below(str(mind)))]
    return sum(map(len, lines)) // len(lines)


class _Stepper:
    """A process that takes steps when it is told how many, and answers with how long each took."""

    def __init__(self, words: list[str], directory: Path) -> None:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(directory),
            "PYTHONPATH": ROOT,
            # mini-swe-agent: no banner, no settings of the caller's, no look at the network for prices.
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_GLOBAL_CONFIG_DIR": str(directory / "mini"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }
        self._name = words[-1]
        self._errors = directory / f"{words[-1].replace('/', '_')}.err"
        with open(self._errors, "wb") as errors:
            self._process = subprocess.Popen(
                words, cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )

    def steps(self, count: int) -> list[float]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{count}\n".encode())
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._name} took no steps: {self._errors.read_text()[-2000:]}")
        seconds: list[float] = json.loads(answer)
        if len(seconds) != count:
            raise RuntimeError(f"{self._name} took {len(seconds)} steps; expected {count}")
        return seconds

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()  # its end of input is its end
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _figure(took: dict[str, list[float]], early: list[float], late: list[float], event_bytes: int) -> Figure:
    own = {name: spread(took[name]).median - spread(took[bare]).median for name, bare in ((OURS, BASH), (THEIRS, SH))}
    events = spread(took[TOLD]).median - spread(took[KEPT]).median
    table = Table(
        f"one step without the model, bash `true`: reply received -> result ready to send ({STEPS} steps a round)",
        (*TIMES_HEAD[:-2], "steps", "ratio"),
        tuple(times_row(name, values, took[BASH]) for name, values in took.items()),
        (
            f"Beyond its own shell: ours {milliseconds(own[OURS])} ms, mini-swe-agent {milliseconds(own[THEIRS])} ms.",
            f"Events: {milliseconds(events)} ms and {event_bytes:,} bytes a step.",
            "mini-swe-agent runs commands with /bin/sh, ours with bash; each is to be held against its own shell.",
        ),
    )
    growth = Table(
        f"one step of ours in a long conversation ({STEPS} steps around each)",
        (*TIMES_HEAD[:-2], "steps", "ratio"),
        (times_row(f"step {STEPS}", early, early), times_row(f"step {LONG_STEPS}", late, early)),
    )
    verdicts = (
        at_most(f"step {LONG_STEPS} of one conversation", late, f"step {STEPS}", early, LONG_LIMIT),
        distance("step without the model", took[OURS], "subprocess.run of bash", took[BASH]),
        distance("step without the model", took[OURS], "mini-swe-agent's step", took[THEIRS]),
    )
    return Figure((table, growth), verdicts)
