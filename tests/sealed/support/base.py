"""The Debians that the tests build images on, made from this machine's package sources: no registry is needed. Each
holds all packages of its recipe, so that a build needs no network."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from host.container import image
from host.container.podman import Podman, PodmanError, call, environment

ROOT = Path(__file__).parents[3]
MINUTES = 30


class Base(NamedTuple):
    name: str
    release: str
    packages: list[str]
    label: str
    """Of an image that was made here: what it holds. One of that name that somebody else brought stays."""
    held: str


def _of_image(recipe: image.Recipe) -> Base:
    """Its name is another when it would be made differently."""
    packages = _listed(recipe.file, r'^ARG PACKAGES="(.*)"$')
    how = "\0".join(["bookworm", *packages, (ROOT / image.SCRIPT).read_text()])
    name = f"{recipe.name}-base:{sha256(how.encode()).hexdigest()[:12]}"
    return Base(name, "bookworm", packages, image.COMPLETE, "yes")


def _listed(file: str, pattern: str) -> list[str]:
    found = re.search(pattern, (ROOT / file).read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{file} names no packages"
    return found[1].replace("\\", " ").split()


AGENT, EYE = _of_image(image.AGENT), _of_image(image.EYE)
_OF_DISCOVERY = _listed("discovery/sandbox/Dockerfile.agent", r"--no-install-recommends \\\n(.*?)\\?\n *&&")
_HELD = f"'{' '.join(_OF_DISCOVERY)}'"  # podman keeps the quotes of `import --change`
DISCOVERY = Base("docker.io/library/debian:stable-slim", "trixie", _OF_DISCOVERY, "discovery.packages", _HELD)


def make(podman: Podman, say: Callable[[str], None], base: Base) -> None:
    """Unless it is there. Raises PodmanError, CommandError."""
    try:
        there = podman("image", "inspect", f'--format={{{{index .Labels "{base.label}"}}}}', base.name)
    except PodmanError:
        pass
    else:
        if there.strip() in ("", "<no value>", base.held):
            return
    say(f"making {base.name} of Debian's {base.release}, from this machine's package sources")
    with tempfile.TemporaryDirectory(prefix="base-", dir=os.environ["HOME"]) as directory:
        tar = f"{directory}/base.tar"
        words = ("/bin/sh", f"{ROOT}/{image.SCRIPT}", base.release, "minbase", tar, *base.packages)
        call(words, environment(os.environ, fetching=True), seconds=MINUTES * 60)
        label = f"--change=LABEL {base.label}={base.held}"
        podman("import", label, "--quiet", tar, base.name, seconds=MINUTES * 60)
    say(f"made {base.name}")
