"""Before the tests with containers: all that they would have to fetch. The tests themselves touch no network.

`python -m tests.sealed.prepare` makes the user who runs them, the base image and the image of this project, as
`minifram up` would, the Debian that discovery's container is built on, and unpacks a podman 5; what is there already
stays. `make test` begins with it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from host.container import image
from host.container.machine import look
from host.container.podman import FETCHING, Podman, call, environment
from host.errors import CommandError
from tests.sealed.support import base
from tests.sealed.support.project import ROOT, Project
from tests.sealed.support.rootless import Rootless, Unprepared, prepared

MINUTES = 30
NEWER, PACKAGES = "trixie", ("podman", "systemd", "runc", "catatonit")
"""The Debian whose podman plays pods: bookworm's mounts no part of a volume."""
PLACE = ".cache/minifram/trixie-podman-systemd-runc-catatonit"
"""Below the home of the user who runs the tests: the files of these packages, and of what they need."""


def main() -> int:
    """As root, or as the ordinary user who will run the tests."""
    try:
        with prepared() as user:
            # A machine restored from a snapshot has this user's runtime directory and none of its processes: podman
            # then refuses everything until it is told so.
            if user.podman("ps", check=False).returncode:
                user.podman("system", "migrate")
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
            of_discovery = beside.submit(base.make, podman, say, base.DISCOVERY)
            newer = beside.submit(unpack_newer, Path(os.environ["HOME"], PLACE), say)
            of_eye = beside.submit(base.make, podman, say, base.EYE)
            base.make(podman, say, base.AGENT)
            podman("tag", base.AGENT.name, image.DEBIAN)  # for which it stands from now on
            image.find_or_build(podman, os.environ, str(ROOT), None, False, say)
            of_eye.result()
            image.find_or_build(podman, os.environ, str(ROOT), base.EYE.name, False, say, image.EYE)
            of_discovery.result()
            newer.result()
    except CommandError as trouble:
        say(str(trouble))
        return 1
    return 0


def unpack_newer(place: Path, say: Callable[[str], None]) -> None:
    """A directory that one can change the root to; nothing is installed or set up. Raises CommandError."""
    if place.exists():
        return
    say(f"unpacking {', '.join(PACKAGES)} of Debian's {NEWER} into {place}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="newer-", dir=place.parent) as name:
        tar, root = Path(name, "files.tar"), Path(name, "root")
        command = ("/bin/sh", f"{ROOT}/{image.SCRIPT}", NEWER, "extract", str(tar), *PACKAGES)
        call(command, environment(os.environ, fetching=True), seconds=MINUTES * 60)
        root.mkdir()
        leave = ("--exclude=./usr/share", "--exclude=./dev")
        call(("tar", "-xf", str(tar), "-C", str(root), "--no-same-owner", *leave), environment(os.environ))
        for directory in ("bin", "lib", "lib64", "sbin"):  # which a package makes that is not among these
            (root / directory).symlink_to(f"usr/{directory}")
        for directory in ("dev", "home", "oldroot", "proc", "run", "sys", "tmp", "var/tmp"):
            (root / directory).mkdir(parents=True, exist_ok=True)
        root.rename(place)


if __name__ == "__main__":
    sys.exit(here() if sys.argv[1:] == ["here"] else main())
