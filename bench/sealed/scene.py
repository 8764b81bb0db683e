"""What the figures of the sealed container begin with: the ordinary user who runs containers, a copy of the project
where that user can read it, and the images, which are there or the figure is left out. Nothing is fetched or built."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
from collections.abc import Iterator
from typing import Any

from bench.sealed.project import Project
from bench.sealed.rootless import BASE, Rootless, Unprepared, prepared
from host.container import image

ANSWER_SECONDS = 120.0


@contextlib.contextmanager
def sealed_project() -> Iterator[Project]:
    """Raises Unprepared when this machine lacks something, or an image is not there."""
    with prepared() as user:
        user.base()
        project = Project(user)
        image_of(project)
        yield project


def image_of(project: Project) -> str:
    """The name of the image that `up` takes for this copy of the project. Raises Unprepared when it is not there."""
    layers = project.user.podman("image", "inspect", "--format={{.RootFS.Layers}}", BASE).stdout.removesuffix("\n")
    name = f"{image.NAME}:{image.inputs_of(str(project.root), image.Base(BASE, layers, True)).version}"
    if project.user.podman("image", "exists", name, check=False).returncode:
        raise Unprepared(f"the image {name} is not there. Run: python -m tests.sealed.prepare (make bench does)")
    return name


class Asked:
    """A process that answers each line with a line of JSON, and ends with its input."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self._process, self._name = process, name

    def ask(self, line: str) -> Any:
        """Raises RuntimeError that holds what it said, when it ended or is silent for too long."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RuntimeError(f"{self._name} has ended: {self._last_words()}") from None
        # One line for each: nothing of an answer waits in the buffer of an earlier one.
        answered, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS)
        answer = self._process.stdout.readline() if answered else ""
        if not answer:
            raise RuntimeError(f"{self._name} did not answer {line!r}: {self._last_words()}")
        return json.loads(answer)

    def _last_words(self) -> str:
        self._process.kill()
        return self._process.communicate()[1][-2000:]

    def close(self) -> None:
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def answering(user: Rootless, container: str, *words: str) -> Asked:
    """Start a program in a running container, as the cell's user."""
    given = ("--env=PYTHONPATH=/opt/minifram:/project", "--env=PYTHONDONTWRITEBYTECODE=1", "--workdir=/tmp")
    command = user.command("exec", "--interactive", "--user=1000:1000", *given, container, *words)
    return Asked(user.popen(*command), words[-1] if len(words[-1]) < 40 else container)
