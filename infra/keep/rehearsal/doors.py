"""The doors of a rehearsal: the keep's own programs, in scratch places, with a model that plays a script.

A candidate is blamed for nothing while one of them is down."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from infra.keep.git_door.setup import write_door_files
from infra.keep.ledger.lines import Settled, line_of
from infra.keep.rehearsal.findings import Outage, as_outage
from infra.keep.rehearsal.scratch import Scratch
from infra.keep.services.services import OPEN_SECONDS, Service, begin, doors
from infra.keep.settings_file import read_settings
from infra.shared.conversation import REFUSAL
from infra.shared.sockets import connect

ANSWER_SECONDS = 5.0
_LOG_BYTES = 2000


class Doors:
    """Both doors, from `open_model` and `open_git` to the end of `opened`."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._all = self._git, self._model = doors(scratch.settings_path, scratch.places)[:2]

    def open_model(self) -> None:
        """It takes longest to come, and needs only its script. Raises Outage."""
        self._begin(self._model)

    def open_git(self) -> None:
        """When the repository is there. Raises Outage."""
        with as_outage("the git door cannot be put in place"):
            write_door_files(self._scratch.places, read_settings(self._scratch.settings_path))
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

    def refuse_silent(self) -> None:
        """Raises Outage when a door does not answer."""
        self.refuse_dead()
        for service in self._all:
            question, said = service.question, b""
            if question is None:
                continue
            with as_outage(f"the {service.name} does not answer"), connect(service.socket, ANSWER_SECONDS) as door:
                door.sendall(question.words)
                while len(said) < 16 and (piece := door.recv(4096)):
                    said += piece
            if not question.answer.match(said):
                raise Outage(f"the {service.name} answered {said[:80]!r}, which is not an answer to {question.words!r}")

    def calls(self) -> int:
        """How often the model was asked."""
        try:
            with open(self._scratch.places.ledger, "rb") as ledger:
                return ledger.read().count(b"\n")
        except OSError:
            return 0

    def strangers(self) -> int:
        """How often the model was asked what its script does not know."""
        try:
            with open(self._scratch.places.ledger, "rb") as ledger:
                return sum(isinstance(line, Settled) and line.stop_reason == REFUSAL for line in map(line_of, ledger))
        except OSError:
            return 0

    def pids(self) -> frozenset[int]:
        return frozenset(service.process.pid for service in self._all if service.process)

    def end(self) -> None:
        """At once: they hold nothing that is worth waiting for."""
        for service in self._all:
            if service.process:
                service.process.kill()
                service.process.wait()
                os.close(service.pidfd)

    def _begin(self, service: Service) -> None:
        with as_outage(f"the {service.name} cannot be started"):
            begin(service, self._scratch.places.var)

    def _last_words(self) -> str:
        try:
            with open(f"{self._scratch.places.var}/{self._git.output}", "rb") as log:
                return log.read()[-_LOG_BYTES:].decode(errors="replace").strip() or "no words"
        except OSError as error:
            return str(error)


@contextmanager
def opened(scratch: Scratch) -> Iterator[Doors]:
    """Doors that end with the block."""
    made = Doors(scratch)
    try:
        yield made
    finally:
        made.end()
