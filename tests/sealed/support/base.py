"""The Debian that the tests build the images on, made from this machine's package sources: no registry is needed."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from host.container import image
from host.container.image import Recipe
from host.container.podman import Podman, call, environment

ROOT = Path(__file__).parents[3]
RELEASE = "bookworm"
MINUTES = 30


def packages(recipe: Recipe = image.AGENT) -> list[str]:
    """Debian's packages in the image, as its Containerfile lists them."""
    found = re.search(r'^ARG PACKAGES="(.*)"$', (ROOT / recipe.file).read_text(), re.MULTILINE)
    assert found
    return found[1].split()


def name(recipe: Recipe = image.AGENT) -> str:
    """Another when it would be made differently."""
    how = "\0".join([RELEASE, *packages(recipe), (ROOT / image.SCRIPT).read_text()])
    return f"{recipe.name}-base:{hashlib.sha256(how.encode()).hexdigest()[:12]}"


def make(podman: Podman, say: Callable[[str], None], recipe: Recipe = image.AGENT) -> str:
    """It holds all packages, so that a build needs no network. Raises PodmanError."""
    if image.look(podman, name(recipe)) is None:
        say(f"making a base of Debian 12 for {recipe.name}, from this machine's package sources")
        with tempfile.TemporaryDirectory(prefix="base-", dir=os.environ["HOME"]) as directory:
            tar = f"{directory}/base.tar"
            words = ("/bin/sh", f"{ROOT}/{image.SCRIPT}", RELEASE, "minbase", tar, *packages(recipe))
            call(words, environment(os.environ, fetching=True), seconds=MINUTES * 60)
            podman("import", f"--change=LABEL {image.COMPLETE}=yes", "--quiet", tar, name(recipe), seconds=MINUTES * 60)
        say(f"made the base for {recipe.name}")
    return name(recipe)
