"""The Debian that the tests build the image on, made from this machine's package sources: no registry is needed."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from host.container import image
from host.container.podman import Podman, call, environment

ROOT = Path(__file__).parents[3]
RELEASE = "bookworm"
MINUTES = 30


def packages() -> list[str]:
    """Debian's packages in the image, as the Containerfile lists them."""
    found = re.search(r'^ARG PACKAGES="(.*)"$', (ROOT / image.RECIPE).read_text(), re.MULTILINE)
    assert found
    return found[1].split()


def name() -> str:
    """Another when it would be made differently."""
    recipe = "\0".join([RELEASE, *packages(), (ROOT / image.SCRIPT).read_text()])
    return f"{image.NAME}-base:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def make(podman: Podman, say: Callable[[str], None]) -> None:
    """It holds all packages, so that a build needs no network, and stands for Debian's own image from now on. Raises
    PodmanError."""
    if image.look(podman, name()) is None:
        say("making a base image of Debian 12, from this machine's package sources")
        with tempfile.TemporaryDirectory(prefix="base-", dir=os.environ["HOME"]) as directory:
            tar = f"{directory}/base.tar"
            words = ("/bin/sh", f"{ROOT}/{image.SCRIPT}", RELEASE, "minbase", tar, *packages())
            call(words, environment(os.environ, fetching=True), seconds=MINUTES * 60)
            podman("import", f"--change=LABEL {image.COMPLETE}=yes", "--quiet", tar, name(), seconds=MINUTES * 60)
    podman("tag", name(), image.DEBIAN)
