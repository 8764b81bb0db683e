"""The image that ours is built on: Debian 12 with the tools of keep and cell.

What the settings name; else what was made before; else Debian's own from a registry that podman knows; else one
made here with mmdebstrap, from where this machine gets its packages. Whatever it was, it is found again by our tag."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Mapping
from typing import NamedTuple

from host.container import apt_sources
from host.container.machine import Machine
from host.container.podman import Podman, PodmanError, call, environment, telling
from host.display import Say
from host.errors import CommandError
from infra.shared.exit_codes import Exit

RELEASE = "bookworm"
OF_DEBIAN = f"debian:{RELEASE}-slim"
"""By its short name: where that is, podman's registries.conf says."""
PACKAGES = (
    "ca-certificates",
    "dnsmasq-base",
    "git",
    "iproute2",
    "make",
    "nftables",
    "procps",
    "python3.11",
    "python3.11-venv",
    "util-linux",
)
"""The same as in the Containerfile, which installs what a base lacks."""
LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*")
KEPT_ALL_THE_SAME = "/usr/share/doc/*/copyright"
LEAVES_NO_TRACE = 'rm -f "$1/etc/apt/sources.list"; : >"$1/etc/resolv.conf"; : >"$1/etc/hostname"'
"""Run in the new root: what says where it was made."""

NAME = "localhost/minifram-base"
PULL_SECONDS = 300.0
MAKE_SECONDS = 1800.0


class Base(NamedTuple):
    name: str
    content: str
    """The digests of its layers: the same files are the same base, whenever they were put together."""
    is_complete: bool
    """It holds all packages: the build needs no network."""


def recipe() -> str:
    """Another value when a base would be made differently."""
    told = [RELEASE, *PACKAGES, *LEFT_OUT, KEPT_ALL_THE_SAME, LEAVES_NO_TRACE]
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:12]


def find_or_make(
    podman: Podman, machine: Machine, environ: Mapping[str, str], cache: str, named: str | None, anew: bool, say: Say
) -> Base:
    """Raises CommandError when there is no way to a base."""
    if named:
        return _named(podman, named, environ, anew, say)
    ours = f"{NAME}:{recipe()}"
    found = None if anew else look(podman, ours)
    if found is None:
        if not (machine.registries and _pulled(podman, ours, environ, say)):
            _made(podman, ours, machine, environ, cache, say)
        found = look(podman, ours)
    return _there(found, ours)


MADE_HERE = "minifram.base"
"""Label of a base that mmdebstrap made: with it, the build needs no network."""


def look(podman: Podman, name: str) -> Base | None:
    """The local image of this name; None when there is none. Raises PodmanError."""
    try:
        told = podman("image", "inspect", f'--format={{{{index .Labels "{MADE_HERE}"}}}}|{{{{.RootFS.Layers}}}}', name)
    except PodmanError as error:
        if "image not known" in error.said or "no such image" in error.said:
            return None
        raise
    made_here, _, layers = told.partition("|")
    return Base(name, layers, made_here == "yes")


def _named(podman: Podman, name: str, environ: Mapping[str, str], anew: bool, say: Say) -> Base:
    if re.search(r"\s", name) or name.startswith("-"):
        raise CommandError(Exit.USAGE, f"podman.base is {name!r}; expected the name of an image")
    found = look(podman, name)
    if found is None or (anew and not name.startswith("localhost/")):
        say(f"pulling the base image {name}")
        try:
            _pull(podman, name, environ, say)
        except PodmanError as error:
            raise CommandError(
                Exit.NOT_FOUND,
                f"the base image {name} (podman.base) is not here and cannot be pulled: {error.said}; "
                "name one that can, or leave podman.base out to have one made",
            ) from None
        found = look(podman, name)
    return _there(found, name)


def _there(found: Base | None, name: str) -> Base:
    if found is None:
        raise CommandError(Exit.FAILURE, f"the base image {name} is gone though it was just there; try again")
    return found


def _pulled(podman: Podman, ours: str, environ: Mapping[str, str], say: Say) -> bool:
    say(f"pulling Debian's image {OF_DEBIAN} as the base")
    try:
        _pull(podman, OF_DEBIAN, environ, say)
        podman("tag", OF_DEBIAN, ours)
    except PodmanError as error:
        say(f"it cannot be pulled ({error.said.splitlines()[-1] if error.said else error}); making one instead")
        return False
    return True


def _pull(podman: Podman, name: str, environ: Mapping[str, str], say: Say) -> None:
    words = (podman.program, *podman.words, "pull", "--quiet", name)
    call(words, environment(environ, fetching=True), seconds=PULL_SECONDS, meanwhile=telling(say, "pulling"))


def _made(podman: Podman, ours: str, machine: Machine, environ: Mapping[str, str], cache: str, say: Say) -> None:
    if not machine.mmdebstrap:
        raise CommandError(
            Exit.NOT_FOUND,
            "there is no base image to build on: podman knows no registry that has Debian's, and mmdebstrap, which "
            "makes one, is not installed. As root: apt-get install mmdebstrap; or name an image in podman.base",
        )
    say("making a base image of Debian 12 with mmdebstrap, from this machine's package sources")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="minifram-base-", dir=cache) as directory:
        tar = f"{directory}/base.tar"
        try:
            call(
                (machine.mmdebstrap, *mmdebstrap_words(tar)),
                for_apt(environ) | {"SOURCE_DATE_EPOCH": "0"},
                "\n".join(sources(RELEASE)).encode(),
                MAKE_SECONDS,
                telling(say, "installing Debian packages"),
            )
        except PodmanError as error:
            raise CommandError(
                Exit.FAILURE,
                f"mmdebstrap could not make the base image: {error.said[-600:]}\nSee whether 'apt-get update' works "
                "on this machine; or name an image in podman.base",
            ) from None
        say(f"packages are there after {time.monotonic() - began:.0f} s; importing {os.path.getsize(tar) >> 20} MiB")
        podman("import", f"--change=LABEL {MADE_HERE}=yes", "--quiet", tar, ours, seconds=MAKE_SECONDS)


def mmdebstrap_words(tar: str) -> list[str]:
    """Sources come on stdin. `--mode=unshare` needs no root, only the user's range of ids."""
    dpkg = [*(f"path-exclude={path}" for path in LEFT_OUT), f"path-include={KEPT_ALL_THE_SAME}"]
    return [
        "--quiet",
        "--mode=unshare",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        *(f"--dpkgopt={option}" for option in dpkg),
        f"--customize-hook={LEAVES_NO_TRACE}",
        RELEASE,
        tar,
        "-",
    ]


def sources(release: str) -> list[str]:
    """Where this machine gets its Debian packages, as lines of sources.list(5) for `release`; empty if it has none."""
    files = {}
    for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*")]:
        with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
            files[path] = file.read()
    return apt_sources.lines(files, _codename() or RELEASE, release)


def _codename() -> str:
    with contextlib.suppress(OSError), open("/etc/os-release", encoding="utf-8") as file:
        match = re.search(r"^VERSION_CODENAME=\"?(\w+)", file.read(), re.MULTILINE)
        return match[1] if match else ""
    return ""


def for_apt(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of mmdebstrap. It does not read apt's settings here, so their proxy is told by variables."""
    kept = environment(environ, fetching=True)
    for scheme in ("http", "https"):
        if f"{scheme}_proxy" not in kept:
            with contextlib.suppress(PodmanError, ValueError):
                told = call(("apt-config", "shell", "proxy", f"Acquire::{scheme}::Proxy"), kept)
                value = told.strip().partition("=")[2].strip("'")
                kept |= {f"{scheme}_proxy": value} if value and value != "DIRECT" else {}
    return kept
