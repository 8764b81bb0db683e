"""Run by the host's own Python in the folder `discovery/`: the same command in pairs, by hand and as a step of a run.

Prints the pairs of seconds as JSON; the words are the engine, the container, the rounds and the command."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, "orchestrator")

import main
from engine import Engine
from llm_driver import LLMDriver, Result

ENGINE, CONTAINER, ROUNDS, COMMAND = sys.argv[1:]


class Pairs(LLMDriver):
    """A step takes from the block's being given to the result's being shown; by hand it is run before or after it, in
    turns."""

    mode = "bench"

    def __init__(self) -> None:
        self.found: list[tuple[float, float]] = []
        self._by_hand = self._began = 0.0

    def decide(self, last: Result | None) -> str:
        if len(self.found) == int(ROUNDS):
            return ""
        if len(self.found) % 2:
            self._by_hand = by_hand()
        self._began = time.monotonic()
        return f"<Intent>\nto measure\n\n<Command>\n{COMMAND}\n\n<Expected>\nnothing\n\n<OnError>\nnone"

    def note(self, result: Result) -> str:
        step = time.monotonic() - self._began
        if result.exit_code:
            raise RuntimeError(f"{COMMAND}: {result.stderr}")
        if not len(self.found) % 2:
            self._by_hand = by_hand()
        self.found.append((self._by_hand, step))
        return ""


def by_hand() -> float:
    words = [ENGINE, "exec", CONTAINER, "/bin/bash", "-lc", COMMAND]
    began = time.monotonic()
    subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    return time.monotonic() - began


pairs = Pairs()
main.run(pairs, main.Options(CONTAINER, Path("runs").resolve(), engine=Engine(ENGINE)))
print(json.dumps(pairs.found))
