"""The processes that play conversations on a provider of ours: each in its own environment, told where to work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from bench.peers import program
from infra.shared.paths import ROOT

MINI, BARE, SDK, DOOR = "mini-swe-agent", "http.client and subprocess", "the SDK alone", "the SDK behind the door"
TOOLS, OPERATIONS = "minifram with tools", "minifram with operations"
CLOSE_SECONDS = 30.0


class Ran(NamedTuple):
    end: str
    """As the program calls it."""
    cpu_seconds: float
    """Of the program and its children; a model door's is not among it."""


class Player:
    """One of the processes; plays a conversation when it is told where."""

    def __init__(self, which: str, url: str, directory: Path) -> None:
        self._which = which
        self._errors = directory / f"{which.replace(' ', '-')}.err"
        own = directory / f"{which.replace(' ', '-')}"
        python = [sys.executable, "-s", "-P", "-m"]
        words = {
            MINI: [f"{os.path.dirname(program('mini'))}/python", "-s", "-P", "-m", "bench.wire_mini", url],
            BARE: [*python, "bench.wire_bare", url],
            SDK: [*python, "bench.wire_layers", "sdk", url, str(own)],
            DOOR: [*python, "bench.wire_layers", "door", url, str(own)],
            TOOLS: [*python, "bench.wire_loop", url, "tools", str(own)],
            OPERATIONS: [*python, "bench.wire_loop", url, "operations", str(own)],
        }[which]
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
        with open(self._errors, "wb") as errors:
            self._process = subprocess.Popen(
                words, cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )

    def begin(self, directory: Path) -> None:
        """A conversation, in this directory."""
        assert self._process.stdin
        self._process.stdin.write(f"{directory}\n".encode())
        self._process.stdin.flush()

    def ended(self) -> Ran:
        """How it ended. Raises RuntimeError when the process did."""
        assert self._process.stdout
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._which} ended: {self._errors.read_text()[-2000:]}")
        told = json.loads(answer)
        return Ran(told["end"], told["cpu"])

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()  # its end of input is its end
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
