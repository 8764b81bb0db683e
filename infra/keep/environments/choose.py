"""Which Python a version is started with. Its environment is a directory named by a hash of what it asks for, and whole
when its marker is there, which is written last. A directory is never moved: what is installed names its place.

All of it is the agent's own, as its clone is: it can forge a marker or change what was installed. So the keep never
runs or imports anything from here; only the runner is started with it, as the cell."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys

from infra.shared.paths import ROOT
from infra.shared.safe_files import Below, whole_file

NAMES = ("requirements.lock", "requirements.txt")
"""At the root of a repository; the first that is there counts."""
OWN = f"{ROOT}/{NAMES[0]}"
"""What the keep was installed from."""
MARKER = ".whole"


def interpreter(files: Below, directory: str, bot: Below, environments: str, own: str = OWN) -> str | None:
    """For what `directory` of `files` asks for: the keep's own when it asks for nothing or for the same; None when its
    environment has to be installed first. Raises OSError; NotPlain for a file that is none."""
    wanted, kept = requirements_in(files, directory), b""
    with contextlib.suppress(FileNotFoundError):
        kept = whole_file(own)
    if fingerprint(wanted) in (fingerprint(b""), fingerprint(kept)):
        return sys.executable
    path = place(environments, wanted)
    return python_in(path) if is_whole(bot, path) else None


def requirements_in(files: Below, directory: str) -> bytes:
    """What the file says that counts; nothing when there is none. Raises OSError; NotPlain for a file that is none."""
    if not files.is_directory(directory):
        raise OSError(f"{directory} is not a directory, or cannot be reached")
    for name in NAMES:
        with contextlib.suppress(FileNotFoundError):
            return files.whole(f"{directory}/{name}")
    return b""


def fingerprint(requirements: bytes) -> str:
    """Of all that decides what an environment holds, comments left out: 16 hex digits. An interpreter of another build,
    place or machine cannot use it."""
    lines = [line.strip() for line in requirements.splitlines()]
    runtime = f"{sys.implementation.cache_tag} {sys.version_info} {sys.platform} {os.uname().machine} {sys.base_prefix}"
    said = [line for line in lines if line and not line.startswith(b"#")]
    return hashlib.sha256(b"\n".join([*said, b"\0", runtime.encode()])).hexdigest()[:16]


def place(environments: str, requirements: bytes) -> str:
    return f"{environments}/{fingerprint(requirements)}"


def python_in(path: str) -> str:
    return f"{path}/bin/python"


def is_whole(bot: Below, path: str) -> bool:
    """An upgrade of the machine can have taken away the interpreter that the link leads to."""
    try:
        with bot.parent(python_in(path)) as (directory, name):
            os.stat(name, dir_fd=directory)
    except OSError:
        return False
    return bot.status(f"{path}/{MARKER}") is not None


def forget(bot: Below, path: str) -> None:
    """Use this environment no more; it is installed again when it is next asked for."""
    bot.unlink(f"{path}/{MARKER}")
