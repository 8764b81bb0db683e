"""A model door's process on a provider of ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench.scene import within
from bench.wire_agent import SETTINGS, write_key
from infra.cell.model_client import ModelFailure, health
from infra.shared import arguments
from infra.shared.paths import Paths
from infra.shared.programs import keep_command, keep_environment

START_SECONDS = 30.0


class WireDoor:
    """Lives in `directory` until it is closed."""

    def __init__(self, directory: Path, url: str) -> None:
        self.places = Paths(*(str(directory / name) for name in ("bot", "remote.git", "run", "var")))
        for path in (self.places.bot, self.places.run, self.places.var):
            os.makedirs(path, mode=0o700)
        settings = directory / "minifram.yaml"
        settings.write_text(SETTINGS.format(url=url, acts="tools"))
        write_key(self.places)
        words = keep_command("infra.model_door", *arguments.words(str(settings), self.places))
        with open(directory / "door.log", "wb") as log:
            self._process = subprocess.Popen(
                words, env=keep_environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        within(START_SECONDS, self._answers, "the model door answering")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(START_SECONDS)

    def _answers(self) -> bool:
        try:
            return bool(health(self.places.model_socket, START_SECONDS))
        except ModelFailure:
            return False
