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


def packages(recipe: str = image.RECIPE) -> list[str]:
    """Debian's packages in the image, as the Containerfile lists them."""
    found = re.search(r'^ARG PACKAGES="(.*)"$', (ROOT / recipe).read_text(), re.MULTILINE)
    assert found
    return found[1].split()


def name(recipe: str = image.RECIPE) -> str:
    """Another when it would be made differently."""
    made_of = "\0".join([RELEASE, *packages(recipe), (ROOT / image.SCRIPT).read_text()])
    return f"{image.NAME}-base:{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"


def make(podman: Podman, say: Callable[[str], None]) -> None:
    """It holds all packages, so that a build needs no network, and stands for Debian's own image from now on. Raises
    PodmanError."""
    make_for(podman, say, image.RECIPE)
    podman("tag", name(), image.DEBIAN)


def make_for(podman: Podman, say: Callable[[str], None], recipe: str) -> None:
    """The same for another image than the agent's, which names it. Raises PodmanError."""
    if image.look(podman, name(recipe)) is None:
        say(f"making a base image of Debian 12 for {recipe}, from this machine's package sources")
        with tempfile.TemporaryDirectory(prefix="base-", dir=os.environ["HOME"]) as directory:
            tar = f"{directory}/base.tar"
            words = ("/bin/sh", f"{ROOT}/{image.SCRIPT}", RELEASE, "minbase", tar, *packages(recipe))
            call(words, environment(os.environ, fetching=True), seconds=MINUTES * 60)
            change = f"--change=LABEL {image.COMPLETE}=yes"
            podman("import", change, "--quiet", tar, name(recipe), seconds=MINUTES * 60)
