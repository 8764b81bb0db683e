"""The image of this version of the project: found again when nothing changed, else built with `podman build`.

Its version is a hash of everything that goes in: the Containerfile, each file that .containerignore lets through, the
locked packages, the base. So the same inputs are the same image, and a container of another version is known by its
label. The base is what the settings name; else what was made before; else Debian's own from a registry that podman
knows; else one that `scripts/debian-base` makes from this machine's package sources."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import NamedTuple

from host.container.machine import Machine
from host.container.podman import Podman, PodmanError, call, environment, telling
from host.container.words import VERSION, Image
from host.display import Say
from host.errors import CommandError
from host.project import Source, files_of, image_files, text_of
from infra.shared.exit_codes import Exit

RELEASE = "bookworm"
DEBIAN = f"debian:{RELEASE}-slim"
"""By its short name: where that is, podman's registries.conf says."""
RECIPE, SCRIPT = "Containerfile", "scripts/debian-base"
NAME = "localhost/minifram"
MADE_HERE = "minifram.base"
"""Label of a base that the script made: it holds all packages, so the build needs no network."""

PYTHON = "3.11"
"""Of the image; the PM's own may be newer."""
GLIBC = 36
"""Debian 12 has glibc 2.36: wheels made for it or an older one run in the image."""

PULL_SECONDS, FETCH_SECONDS, BUILD_SECONDS = 300.0, 900.0, 1800.0


class Base(NamedTuple):
    name: str
    content: str
    """The digests of its layers: the same files are the same base, whenever they were put together."""
    is_complete: bool
    """It holds all packages: the build needs no network."""


class Inputs(NamedTuple):
    """What an image is made from, and the hash of it all."""

    files: list[Source]
    base: Base
    version: str

    @property
    def image(self) -> Image:
        return Image(f"{NAME}:{self.version}", self.version)


def find_or_build(
    podman: Podman, machine: Machine, environ: Mapping[str, str], root: str, named: str | None, rebuild: bool, say: Say
) -> Image:
    """The image of the project at `root`, on the base `named` by the settings if any; `rebuild` makes both again.

    Raises CommandError and PodmanError."""
    cache = cache_of(environ)
    os.makedirs(cache, mode=0o700, exist_ok=True)
    name = named or base_name(root)
    base = look(podman, name)
    if named and (base is None or (rebuild and not named.startswith("localhost/"))):
        try:
            _pull(podman, named, environ, say)
        except PodmanError as error:
            raise CommandError(
                Exit.NOT_FOUND,
                f"the base image {named} (podman.base) is not here and cannot be pulled: {error.said}; "
                "name one that can, or leave podman.base out to have one made",
            ) from None
        base = look(podman, name)
    elif not named and (base is None or rebuild):
        if not (machine.registries and _pull_debian(podman, name, environ, say)):
            _make_base(podman, name, machine, environ, root, cache, say)
        base = look(podman, name)
    if base is None:
        raise CommandError(Exit.FAILURE, f"the base image {name} is gone though it was just there; try again")
    inputs = inputs_of(root, base)
    if rebuild or look(podman, inputs.image.name) is None:
        _build(podman, environ, root, cache, inputs, say)
    return inputs.image


def known(podman: Podman, root: str, named: str | None) -> Image | None:
    """What `find_or_build` would give, built or not; None when its base is not here. Raises CommandError and
    PodmanError."""
    base = look(podman, named or base_name(root))
    return inputs_of(root, base).image if base else None


def look(podman: Podman, name: str) -> Base | None:
    """The local image of this name; None when there is none. Raises PodmanError."""
    if name.startswith("-") or re.search(r"\s", name):
        raise CommandError(Exit.USAGE, f"podman.base is {name!r}; expected the name of an image")
    try:
        shown = podman("image", "inspect", f'--format={{{{index .Labels "{MADE_HERE}"}}}}|{{{{.RootFS.Layers}}}}', name)
    except PodmanError as error:
        if "image not known" in error.said or "no such image" in error.said:
            return None
        raise
    made_here, _, layers = shown.partition("|")
    return Base(name, layers, made_here == "yes")


def cache_of(environ: Mapping[str, str]) -> str:
    """Where what was fetched is kept; all of it can be removed at any time."""
    given = environ.get("XDG_CACHE_HOME", "")
    above = given if os.path.isabs(given) else os.path.join(environ.get("HOME", "/"), ".cache")
    return os.path.join(os.path.normpath(above), "minifram")


def inputs_of(root: str, base: Base) -> Inputs:
    """Raises CommandError when the project lacks a part."""
    files = image_files(root)
    digest = hashlib.sha256()
    for source in [*files_of(root, RECIPE), *files]:
        with open(source.file, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{source.path}\0{source.executable:d}\0{content}\n".encode())
    digest.update(base.content.encode())
    return Inputs(files, base, digest.hexdigest()[:12])


# --- the base ------------------------------------------------------------------------------------


def base_name(root: str) -> str:
    """Of the base that is made or pulled when the settings name none; another when it would be made differently."""
    recipe = "\0".join([RELEASE, *packages(root), text_of(root, SCRIPT)])
    return f"{NAME}-base:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def packages(root: str) -> list[str]:
    """Debian's packages in the image, as the Containerfile lists them. Raises CommandError."""
    found = re.search(r'^ARG PACKAGES="(.*)"$', text_of(root, RECIPE), re.MULTILINE)
    return found[1].split() if found else []


def _pull(podman: Podman, name: str, environ: Mapping[str, str], say: Say) -> None:
    say(f"pulling the image {name} as the base")
    words = (podman.program, *podman.words, "pull", "--quiet", name)
    call(words, environment(environ, fetching=True), seconds=PULL_SECONDS, meanwhile=telling(say, "pulling"))


def _pull_debian(podman: Podman, name: str, environ: Mapping[str, str], say: Say) -> bool:
    try:
        _pull(podman, DEBIAN, environ, say)
        podman("tag", DEBIAN, name)
    except PodmanError as error:
        say(f"it cannot be pulled ({error.said.splitlines()[-1] if error.said else error}); making one instead")
        return False
    return True


def _make_base(
    podman: Podman, name: str, machine: Machine, environ: Mapping[str, str], root: str, cache: str, say: Say
) -> None:
    if not machine.mmdebstrap:
        raise CommandError(
            Exit.NOT_FOUND,
            "no base image to build on: podman knows no registry that has Debian's, and mmdebstrap, which "
            "makes one, is not installed. As root: apt-get install mmdebstrap; or name an image in podman.base",
        )
    say("making a base image of Debian 12 with mmdebstrap, from this machine's package sources")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="minifram-base-", dir=cache) as directory:
        tar = f"{directory}/base.tar"
        try:
            call(
                ("/bin/sh", f"{root}/{SCRIPT}", RELEASE, "minbase", tar, *packages(root)),
                environment(environ, fetching=True),
                seconds=BUILD_SECONDS,
                meanwhile=telling(say, "installing Debian packages"),
            )
        except PodmanError as error:
            raise CommandError(
                Exit.FAILURE,
                f"mmdebstrap could not make the base image: {error.said[-600:]}\nSee whether 'apt-get update' works "
                "on this machine; or name an image in podman.base",
            ) from None
        say(f"packages are there after {time.monotonic() - began:.0f} s; importing {os.path.getsize(tar) >> 20} MiB")
        podman("import", f"--change=LABEL {MADE_HERE}=yes", "--quiet", tar, name, seconds=BUILD_SECONDS)


# --- the build -----------------------------------------------------------------------------------


def _build(podman: Podman, environ: Mapping[str, str], root: str, cache: str, inputs: Inputs, say: Say) -> None:
    began = time.monotonic()
    wheels = _fetch_wheels(f"{root}/requirements.lock", cache, environ, say)
    say(f"building the image {inputs.image.name}")
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as context:
        # Copies, readable whatever the PM's umask was: the image is made from what was hashed, nothing else.
        for source in inputs.files:
            path = f"{context}/{source.path}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copyfile(source.file, path)
            os.chmod(path, 0o755 if source.executable else 0o644)
        try:
            call(
                (podman.program, *podman.words, *build_command(f"{root}/{RECIPE}", context, wheels, inputs)),
                environment(environ, fetching=not inputs.base.is_complete),
                seconds=BUILD_SECONDS,
                meanwhile=telling(say, "building"),
            )
        except PodmanError as error:
            raise CommandError(Exit.FAILURE, f"the image could not be built: {error.said[-1500:]}") from None
    size = int(podman("image", "inspect", "--format={{.Size}}", inputs.image.name))
    say(f"built {inputs.image.name}: {size / 1e6:.0f} MB, after {time.monotonic() - began:.0f} s")


def build_command(recipe: str, context: str, wheels: str, inputs: Inputs) -> list[str]:
    """Behind `podman`, what builds the image: one layer on the base, with no time of day in it."""
    return [
        *("build", "--quiet", "--pull=never", "--squash", "--timestamp=0", "--no-hosts"),
        *(["--network=none"] if inputs.base.is_complete else []),
        f"--file={recipe}",
        f"--build-arg=BASE={inputs.base.name}",
        f"--volume={wheels}:/mnt/wheels:ro",
        f"--label={VERSION}={inputs.version}",
        f"--tag={inputs.image.name}",
        context,
    ]


def _fetch_wheels(lock: str, cache: str, environ: Mapping[str, str], say: Say) -> str:
    """The directory with the wheels of `lock`, checked by hash now and again when they are installed. They are fetched
    outside the build, which so needs no network. Raises CommandError."""
    with open(lock, "rb") as file:
        content = file.read()
    key = hashlib.sha256(b"\0".join([content, platform.machine().encode(), PYTHON.encode()])).hexdigest()[:16]
    place = f"{cache}/wheels/{key}"
    if os.path.isdir(place):
        return place
    os.makedirs(f"{cache}/wheels", exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="new-", dir=f"{cache}/wheels") as directory:
        new = f"{directory}/wheels"
        os.mkdir(new, 0o755)
        if count := len(re.findall(rb"^[A-Za-z0-9][^ ]*==", content, re.MULTILINE)):
            say(f"fetching {count} Python packages, as {os.path.basename(lock)} says")
            try:
                call(
                    (sys.executable, *fetch_command(lock, new, platform.machine())),
                    environment(environ, fetching=True),
                    seconds=FETCH_SECONDS,
                    meanwhile=telling(say, "fetching"),
                )
            except PodmanError as error:
                text = f"the packages of {lock} could not be fetched: {error.said[-600:]}\nOften it is the network"
                raise CommandError(Exit.FAILURE, text) from None
        try:
            os.rename(new, place)
        except OSError:
            if not os.path.isdir(place):  # else another build was there first, with the same
                raise
    return place


def fetch_command(lock: str, place: str, machine: str) -> list[str]:
    """Behind this Python: how pip fetches what the image's Python can use, on any machine."""
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)]
    platforms += [f"--platform=manylinux{year}_{machine}" for year in ("2014", "2010", "1")]
    return [
        *("-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"),
        *("--require-hashes", "--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp"),
        *platforms,
        f"--dest={place}",
        f"--requirement={lock}",
    ]
