"""The git door in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import infra
from infra.keep import arguments
from infra.keep.watcher_file import Runner, State, encode
from infra.shared.files import write_whole
from tests.keep.git_door.world import START_SECONDS, World, until

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(infra.__file__)))


class Door:
    """It takes this very process for the runner."""

    def __init__(self, world: World, text: str = "") -> None:
        world.close_door()
        write_whole(world.places.watcher_state, encode(State(runner=Runner(pid=os.getpid()))))
        settings = world.root / "minifram.yaml"
        settings.write_text(text)
        self.log_path = world.root / f"door-{time.monotonic_ns()}.log"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-s", "-P", "-m", "infra.git_door"),
                    *arguments.words(str(settings), world.places),
                ],
                cwd="/",
                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": ROOT},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def opened(self) -> Door:
        assert until(lambda: "door.opened" in self.events or self.process.poll() is not None)
        assert self.process.poll() is None, self.log
        return self

    def ended(self) -> int:
        return self.process.wait(START_SECONDS)

    @property
    def log(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    @property
    def events(self) -> list[object]:
        return [line["event"] for line in self.log]
