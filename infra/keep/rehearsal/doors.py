"""The doors of a rehearsal: the keep's own programs, in scratch places, with a model that plays a script.

They end with everything else that the rehearsal started."""

from __future__ import annotations

import os
import time

from infra.keep.git_door.setup import write_door_files
from infra.keep.ledger.lines import Settled, line_of
from infra.keep.rehearsal.scene import Scene
from infra.keep.services.doors import OPEN_SECONDS, Service, begin, doors
from infra.keep.settings.check import read_settings

_LOG_BYTES = 2000


class Outage(Exception):
    """No verdict is possible; says why."""


class Doors:
    """Both doors of a scene."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._all = self._git, self._model = doors(scene.settings_path, scene.places)[:2]

    def open_model(self) -> None:
        """It takes longest to come, and needs only its script. Raises OSError."""
        self._begin(self._model)

    def open_git(self) -> None:
        """When the repository is there. Raises OSError."""
        write_door_files(self._scene.places, read_settings(self._scene.settings_path))
        self._begin(self._git)

    def wait_until_open(self) -> None:
        """Raises Outage."""
        deadline = time.monotonic() + OPEN_SECONDS
        while not all(os.path.exists(service.socket) for service in self._all):
            self.refuse_dead()
            if time.monotonic() > deadline:
                raise Outage(f"the doors did not open within {OPEN_SECONDS:g} s: {self._last_words()}")
            time.sleep(0.005)

    def refuse_dead(self) -> None:
        """Raises Outage when a door has ended."""
        for service in self._all:
            if service.process and service.process.poll() is not None:
                status = service.process.returncode
                raise Outage(f"the {service.name} ended with {status} during the rehearsal: {self._last_words()}")

    def answers(self) -> list[str | None]:
        """Why the model stopped, for each time that it was asked."""
        try:
            with open(self._scene.places.ledger, "rb") as ledger:
                return [line.stop_reason for line in map(line_of, ledger) if isinstance(line, Settled)]
        except FileNotFoundError:
            return []

    def pids(self) -> frozenset[int]:
        return frozenset(service.process.pid for service in self._all if service.process)

    def _begin(self, service: Service) -> None:
        begin(service, self._scene.places.var, time.monotonic())

    def _last_words(self) -> str:
        with open(f"{self._scene.places.var}/{self._git.output}", "rb") as log:
            return log.read()[-_LOG_BYTES:].decode(errors="replace").strip() or "no words"
