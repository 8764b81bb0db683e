"""The images of this version of the project, for an agent and for its browser: found again when nothing changed, else
built with `podman build`.

An image's version is a hash of all that goes in: the Containerfile, each file that it holds, the locked packages, the
base. So the same inputs are the same image. Python's packages are fetched outside the build, by their hashes, and
mounted into it: a build on a base that holds Debian's packages (scripts/debian-base makes one) needs no network."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

from host.container.podman import Podman, PodmanError, call, environment
from host.errors import failure, not_found, usage
from host.home import base_directory
from host.project import IN_IMAGE, files_of, image_files
from host.screen import Say

DEBIAN = "docker.io/library/debian:bookworm-slim"
SCRIPT = "scripts/debian-base"
COMPLETE = "minifram.base"
"""Label of a base that holds all packages: the build gets no network."""
PYTHON, GLIBC = "3.11", 36
"""Of the image, which is Debian 12; the PM's own may be newer."""
PULL_SECONDS, FETCH_SECONDS, BUILD_SECONDS = 300.0, 900.0, 1800.0


class Recipe(NamedTuple):
    """What an image is made of."""

    file: str
    parts: tuple[str, ...]
    """Of the project: what is copied into it."""
    name: str
    setting: str
    """Which names another base."""


AGENT = Recipe("Containerfile", IN_IMAGE, "localhost/minifram", "podman.base")
EYE = Recipe("Containerfile.eye", ("infra/keep/eye/parent.py",), "localhost/minifram-eye", "podman.eye_base")


class Base(NamedTuple):
    name: str
    content: str
    """The digests of its layers: the same files are the same base, whenever they were put together."""
    is_complete: bool


def find_or_build(
    podman: Podman,
    environ: Mapping[str, str],
    root: str,
    named: str | None,
    rebuild: bool,
    say: Say,
    recipe: Recipe = AGENT,
) -> str:
    """The name of the project's image, on the base `named` by the settings if any; `rebuild` pulls the base and builds
    the image again. Raises CommandError and PodmanError."""
    name = named or DEBIAN
    if name.startswith("-") or re.search(r"\s", name):
        raise usage(f"{recipe.setting} is {name!r}; expected the name of an image")
    base = look(podman, name)
    if base is None or (rebuild and not name.startswith("localhost/")):
        base = _pull(podman, name, environ, recipe, say)
    image = f"{recipe.name}:{version_of(root, base, recipe)}"
    if rebuild or look(podman, image) is None:
        _build(podman, environ, root, recipe, base, image, say)
    return image


def look(podman: Podman, name: str) -> Base | None:
    """The local image of this name; None when there is none. Raises PodmanError."""
    try:
        shown = podman("image", "inspect", f'--format={{{{index .Labels "{COMPLETE}"}}}}|{{{{.RootFS.Layers}}}}', name)
    except PodmanError as error:
        if "image not known" in error.said or "no such image" in error.said:
            return None
        raise
    complete, _, layers = shown.partition("|")
    return Base(name, layers, complete == "yes")


def version_of(root: str, base: Base, recipe: Recipe = AGENT) -> str:
    """Raises CommandError when the project lacks a part."""
    digest = hashlib.sha256()
    for source in [*files_of(root, recipe.file), *image_files(root, recipe.parts)]:
        with open(source.file, "rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{source.path}\0{source.executable:d}\0{content}\n".encode())
    digest.update(base.content.encode())
    return digest.hexdigest()[:12]


def _pull(podman: Podman, name: str, environ: Mapping[str, str], recipe: Recipe, say: Say) -> Base:
    say(f"pulling the image {name} as the base")
    try:
        _fetch((podman.program, *podman.words, "pull", "--quiet", name), environ, PULL_SECONDS)
        if base := look(podman, name):
            return base
        why = "it is gone again"
    except PodmanError as error:
        why = error.said
    raise not_found(
        f"the base image {name} is not here and cannot be pulled: {why}; name another in {recipe.setting}. "
        f"Without a registry, {SCRIPT} makes the tar of one, which 'podman import' takes"
    )


def _fetch(words: tuple[str, ...], environ: Mapping[str, str], seconds: float) -> None:
    """A long piece of work that may need the outside; Ctrl-C ends it."""
    call(words, environment(environ, fetching=True), seconds, ends_with_us=True)


def _build(
    podman: Podman, environ: Mapping[str, str], root: str, recipe: Recipe, base: Base, image: str, say: Say
) -> None:
    cache = base_directory(environ, "XDG_CACHE_HOME", ".cache")
    os.makedirs(cache, mode=0o700, exist_ok=True)
    wheels = _fetch_wheels(f"{root}/requirements.lock", cache, environ, say) if recipe is AGENT else ""
    say(f"building the image {image}; this takes some minutes")
    with tempfile.TemporaryDirectory(prefix="build-", dir=cache) as context:
        # Copies, readable whatever the PM's umask was: the image is made from what was hashed, nothing else.
        for source in image_files(root, recipe.parts):
            path = f"{context}/{source.path}"
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copyfile(source.file, path)
            os.chmod(path, 0o755 if source.executable else 0o644)
        words = build_words(f"{root}/{recipe.file}", context, wheels, base, image)
        try:
            _fetch((podman.program, *podman.words, *words), environ, BUILD_SECONDS)
        except PodmanError as error:
            raise failure(f"the image could not be built: {error.said[-1500:]}") from None


def build_words(recipe: str, context: str, wheels: str, base: Base, image: str) -> list[str]:
    """Behind `podman`, what builds the image: one layer on the base, with no time of day in it."""
    return [
        *("build", "--quiet", "--pull=never", "--squash", "--timestamp=0", "--no-hosts"),
        *(["--network=none"] if base.is_complete else []),
        f"--file={recipe}",
        f"--build-arg=BASE={base.name}",
        *([f"--volume={wheels}:/mnt/wheels:ro"] if wheels else []),
        f"--tag={image}",
        context,
    ]


def _fetch_wheels(lock: str, cache: str, environ: Mapping[str, str], say: Say) -> str:
    """The directory with the wheels of `lock`, checked by hash now and again when they are installed."""
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
        if b"==" in content:
            say(f"fetching the Python packages of {os.path.basename(lock)}")
            try:
                _fetch((sys.executable, *fetch_words(lock, new, platform.machine())), environ, FETCH_SECONDS)
            except PodmanError as error:
                text = f"the packages of {lock} could not be fetched: {error.said[-600:]}\nOften it is the network"
                raise failure(text) from None
        os.rename(new, place)
    return place


def fetch_words(lock: str, place: str, machine: str) -> list[str]:
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
