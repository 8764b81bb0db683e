"""The image of this version of the project: found again when nothing changed, else built.

Its version is a hash of everything that goes in: the Containerfile, each file, the locked packages, the base. So the
same inputs are the same image, and a container of another version is known by its label."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from typing import NamedTuple

from host.container import base, wheels
from host.container.machine import Machine
from host.container.podman import Podman, PodmanError, call, environment, telling
from host.container.words import VERSION, Image
from host.display import Say
from host.errors import CommandError
from host.project import Source, files_of
from infra.shared.exit_codes import Exit

PARTS = (
    "COMMS.md",
    "SYSTEM.md",
    "bot-template",
    "infra",
    "nftables",
    "podman",
    "pyproject.toml",
    "requirements.lock",
    "spec",
)
"""Of this project, what the image holds; the same as in .containerignore."""
RECIPE = "Containerfile"
NAME = "localhost/minifram"
BUILD_SECONDS = 1800.0


class Inputs(NamedTuple):
    """What an image is made from, and the hash of it all."""

    files: list[Source]
    base: base.Base
    version: str


def find_or_build(
    podman: Podman,
    machine: Machine,
    environ: Mapping[str, str],
    root: str,
    named_base: str | None,
    anew: bool,
    say: Say,
) -> Image:
    """The image of the project at `root`; `anew` makes it again, on a base that is made or pulled again.

    Raises CommandError and PodmanError."""
    cache = cache_of(environ)
    os.makedirs(cache, mode=0o700, exist_ok=True)
    chosen = base.find_or_make(podman, machine, environ, cache, named_base, anew, say)
    inputs = look_over(root, chosen)
    image = _named(inputs)
    if anew or base.look(podman, image.name) is None:
        _build(podman, environ, root, cache, inputs, image, say)
    return image


def known(podman: Podman, root: str, named_base: str | None) -> Image | None:
    """What `find_or_build` would give, built or not; None when its base is not here. Raises CommandError and
    PodmanError."""
    chosen = base.look(podman, named_base or f"{base.NAME}:{base.recipe()}")
    return _named(look_over(root, chosen)) if chosen else None


def _named(inputs: Inputs) -> Image:
    return Image(f"{NAME}:{inputs.version}", inputs.version)


def cache_of(environ: Mapping[str, str]) -> str:
    """Where what was fetched is kept; all of it can be removed at any time."""
    given = environ.get("XDG_CACHE_HOME", "")
    above = given if os.path.isabs(given) else os.path.join(environ.get("HOME", "/"), ".cache")
    return os.path.join(os.path.normpath(above), "minifram")


def look_over(root: str, chosen: base.Base) -> Inputs:
    """Raises CommandError when the project lacks a part."""
    files = [source for part in PARTS for source in files_of(root, part)]
    told = hashlib.sha256()
    for source in [*files_of(root, RECIPE), *files]:
        with open(source.file, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        told.update(f"{source.path}\0{source.executable:d}\0{content}\n".encode())
    told.update(chosen.content.encode())
    return Inputs(files, chosen, told.hexdigest()[:12])


def _build(
    podman: Podman, environ: Mapping[str, str], root: str, cache: str, inputs: Inputs, image: Image, say: Say
) -> None:
    began = time.monotonic()
    place = wheels.fetched(f"{root}/requirements.lock", cache, environ, say)
    say(f"building the image {image.name}")
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as context:
        _lay_out(inputs.files, context)
        words = build_words(f"{root}/{RECIPE}", context, place, inputs, image)
        try:
            call(
                (podman.program, *podman.words, *words),
                environment(environ, fetching=not inputs.base.is_complete),
                seconds=BUILD_SECONDS,
                meanwhile=telling(say, "building"),
            )
        except PodmanError as error:
            raise CommandError(Exit.FAILURE, f"the image could not be built: {error.said[-1500:]}") from None
    size = int(podman("image", "inspect", "--format={{.Size}}", image.name))
    say(f"built {image.name}: {size / 1e6:.0f} MB, after {time.monotonic() - began:.0f} s")


def build_words(recipe: str, context: str, place: str, inputs: Inputs, image: Image) -> list[str]:
    """Behind `podman`, what builds the image: one layer on the base, with no time of day in it."""
    return [
        *("build", "--quiet", "--pull=never", "--squash", "--timestamp=0", "--no-hosts"),
        *(["--network=none"] if inputs.base.is_complete else []),
        f"--file={recipe}",
        f"--build-arg=BASE={inputs.base.name}",
        f"--build-arg=PACKAGES={' '.join(base.PACKAGES)}",
        f"--volume={place}:/mnt/wheels:ro",
        f"--label={VERSION}={inputs.version}",
        f"--tag={image.name}",
        context,
    ]


def _lay_out(files: list[Source], context: str) -> None:
    """Copies, readable whatever the PM's umask was: the image is made from what was hashed, nothing else."""
    for source in files:
        path = f"{context}/{source.path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copyfile(source.file, path)
        os.chmod(path, 0o755 if source.executable else 0o644)
