"""The Python packages that go into the image, fetched outside it: the build itself needs no network.

Each is exactly what requirements.lock says, checked by hash when it is fetched and again when it is installed."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping

from host.container.podman import PodmanError, call, environment, telling
from host.display import Say
from host.errors import CommandError
from infra.shared.exit_codes import Exit

PYTHON = "3.11"
"""Of the image; the PM's own may be newer."""
GLIBC = 36
"""Debian 12 has glibc 2.36: wheels made for it or an older one run in the image."""
FETCH_SECONDS = 900.0


def fetched(lock: str, cache: str, environ: Mapping[str, str], say: Say) -> str:
    """The directory with the wheels of `lock`; they are fetched when they are not there yet. Raises CommandError."""
    with open(lock, "rb") as file:
        content = file.read()
    place = f"{cache}/wheels/{_key(content, platform.machine())}"
    if os.path.isdir(place):
        return place
    new = f"{place}.{os.getpid()}.new"
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new, mode=0o755)
    try:
        count = len(re.findall(rb"^[A-Za-z0-9][^ ]*==", content, re.MULTILINE))
        if count:
            say(f"fetching {count} Python packages, as {os.path.basename(lock)} says")
            call(
                (sys.executable, *fetch_words(lock, new, platform.machine())),
                environment(environ, fetching=True),
                seconds=FETCH_SECONDS,
                meanwhile=telling(say, "fetching"),
            )
        _put(new, place)
    except PodmanError as error:
        raise CommandError(
            Exit.FAILURE, f"the packages of {lock} could not be fetched: {error.said[-600:]}\nOften it is the network"
        ) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return place


def fetch_words(lock: str, place: str, machine: str) -> list[str]:
    """Behind this Python: what pip is told, whatever machine it runs on, to get what the image's Python can use."""
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)]
    platforms += [f"--platform=manylinux{year}_{machine}" for year in ("2014", "2010", "1")]
    return [
        *("-I", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"),
        *("--require-hashes", "--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp"),
        *platforms,
        f"--dest={place}",
        f"--requirement={lock}",
    ]


def _key(lock: bytes, machine: str) -> str:
    return hashlib.sha256(b"\0".join([lock, machine.encode(), PYTHON.encode()])).hexdigest()[:16]


def _put(new: str, place: str) -> None:
    try:
        os.rename(new, place)
    except OSError:
        if not os.path.isdir(place):  # else another build was there first, with the same
            raise
