"""The Debian that discovery's Dockerfile asks for, made from this machine's package sources: no registry is needed.

It holds all packages of the Dockerfile and knows no source of packages, so that `apt-get` there finds nothing to fetch
and the build needs no network. An image of that name that somebody else brought stays."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from host.container.podman import Podman, PodmanError, call, environment
from host.errors import CommandError
from infra.shared.exit_codes import Exit

ROOT = Path(__file__).parents[2]
RELEASE = "trixie"
NAME = "docker.io/library/debian:stable-slim"
LABEL = "discovery.packages"
"""Of an image that was made here: what it holds."""
MINUTES = 30


def packages() -> list[str]:
    """Debian's names of what the Dockerfile installs."""
    recipe = (ROOT / "discovery/sandbox/Dockerfile.agent").read_text()
    found = re.search(r"--no-install-recommends \\\n(.*?)\\?\n *&&", recipe, re.DOTALL)
    assert found, "the Dockerfile installs nothing"
    return found[1].replace("\\", " ").split()


def make(podman: Podman, say: Callable[[str], None]) -> None:
    """Raises CommandError and PodmanError."""
    wanted = " ".join(packages())
    try:
        there = podman("image", "inspect", f'--format={{{{index .Labels "{LABEL}"}}}}', NAME).strip()
    except PodmanError:
        pass
    else:
        if there.strip("'") in ("", "<no value>", wanted):  # podman keeps the quotes of `import --change`
            return
    if not shutil.which("mmdebstrap"):
        raise CommandError(Exit.NOT_FOUND, "mmdebstrap, which makes it, is not installed: apt-get install mmdebstrap")
    say(f"making {NAME}, which the container of discovery is built on")
    began = time.monotonic()
    cache = Path(os.environ["HOME"], ".cache/minifram")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="discovery-base-", dir=cache) as directory:
        tar = f"{directory}/base.tar"
        words = ("/bin/sh", f"{ROOT}/scripts/debian-base", RELEASE, "minbase", tar, *packages())
        call(words, environment(os.environ, fetching=True), seconds=MINUTES * 60)
        podman("import", f"--change=LABEL {LABEL}={wanted!r}", "--quiet", tar, NAME, seconds=MINUTES * 60)
    say(f"made {NAME} in {time.monotonic() - began:.0f} s")
