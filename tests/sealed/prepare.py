"""Before the tests with containers: all that they would have to fetch. The tests themselves touch no network.

`python -m tests.sealed.prepare` makes the user who runs them, the base image and the image of this project, as
`minifram up` would, and the Debian that discovery's container is built on; what is there already stays. `make test`
begins with it."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from host.container import image
from host.container.machine import look
from host.container.podman import FETCHING, Podman, environment
from host.errors import CommandError
from tests.discovery import base as discovery
from tests.sealed.support import base as base_of_image
from tests.sealed.support.project import ROOT, Project
from tests.sealed.support.rootless import Rootless, Unprepared, prepared

MINUTES = 30


def main() -> int:
    """As root, or as the ordinary user who will run the tests."""
    try:
        with prepared() as user:
            return _in_a_copy(user)
    except Unprepared as missing:
        print(missing, file=sys.stderr)
        return 1


def _in_a_copy(user: Rootless) -> int:
    project = Project(user)
    fetching = {name: value for name, value in os.environ.items() if name in FETCHING or name.startswith("PIP_")}
    command = project.command("tests.sealed.prepare", "here", **fetching)
    with user.popen(*command) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
        process.wait(MINUTES * 60)
    return process.returncode


def here() -> int:
    """The images, made by this user from the project that this module belongs to. No registry is asked."""
    began = time.monotonic()
    machine = look(os.environ, os.getuid())
    podman = Podman(machine.podman, environment(os.environ), machine.words)

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)

    try:
        with ThreadPoolExecutor() as beside:  # most of the time goes into waiting for packages
            base = beside.submit(discovery.make, podman, say)
            eye = beside.submit(base_of_image.make, podman, say, image.EYE)
            podman("tag", base_of_image.make(podman, say), image.DEBIAN)  # for which it stands from now on
            image.find_or_build(podman, os.environ, str(ROOT), None, False, say)
            image.find_or_build(podman, os.environ, str(ROOT), eye.result(), False, say, image.EYE)
            base.result()
    except CommandError as trouble:
        say(str(trouble))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(here() if sys.argv[1:] == ["here"] else main())
