"""The branches' environments on the disk, as directories `<16 digits of the hash>-<8 of chance>`, never moved: what
is installed names the place it was installed at. One is whole when its marker is there, which is written last.

All of it is the agent's own, its code as its checkout is: it can forge a marker or change what was installed. So the
keep never runs or imports anything from here; only the runner is started with it, as the cell. What is read here is
read as the cell, without following links, without blocking, with a bound."""

from __future__ import annotations

import os
import re
import stat
import sys

from infra.keep.environments.choose import Choice, Existing, OwnInterpreter, choose
from infra.keep.environments.requirements import MAX_BYTES, NAMES, BadRequirements, this_runtime

MARKER = ".whole"
"""Holds the hash and a newline."""
MAX_ENTRIES = 1000
_ENVIRONMENT = re.compile(r"(?P<hash>[0-9a-f]{16})-[0-9a-f]{8}")
_SAFE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def look(checkout: str, own_file: str, environments: str) -> Choice:
    """What the runner of `checkout` is to be started with; `own_file` is what the keep was installed from.

    For most starts two small files are read and nothing more. Raises BadRequirements and OSError."""
    source, theirs = read_requirements(checkout)
    own = _read_own(own_file)
    if theirs is None or theirs == own:
        return OwnInterpreter()
    return choose(theirs, own, whole_ones(environments), this_runtime(), source)


def interpreter_of(choice: OwnInterpreter | Existing) -> str:
    """What the runner is started with. Its directory comes first in PATH, and no other environment's is in PATH."""
    return f"{choice.path}/bin/python" if isinstance(choice, Existing) else sys.executable


def read_requirements(checkout: str) -> tuple[str, bytes | None]:
    """The name and content of the file that counts; None when there is none. Raises BadRequirements and OSError."""
    directory = os.open(checkout, _SAFE | os.O_DIRECTORY)
    try:
        for name in NAMES:
            try:
                kind = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
            except FileNotFoundError:
                continue
            try:
                content = _read(name, directory, MAX_BYTES) if stat.S_ISREG(kind) else None
            except PermissionError:
                raise BadRequirements(f"{name} may not be read; chmod it to 644") from None
            if content is None:
                raise BadRequirements(f"{name} is no regular file of at most {MAX_BYTES} bytes; commit it as one")
            return name, content
    finally:
        os.close(directory)
    return "", None


def whole_ones(environments: str) -> dict[str, str]:
    """Path -> hash of the environments that can be used; none when the directory is missing, a link or closed."""
    found = {}
    try:
        directory = os.open(environments, _SAFE | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # whoever installs puts that right
        return {}
    try:
        for name in _names(directory):
            whole = _hash_of(name, directory)
            if whole:
                found[f"{environments}/{name}"] = whole
    finally:
        os.close(directory)
    return found


def entries(environments: str) -> list[str]:
    """Paths of everything that lies there. Raises OSError."""
    directory = os.open(environments, _SAFE | os.O_DIRECTORY)
    try:
        return [f"{environments}/{name}" for name in _names(directory)]
    finally:
        os.close(directory)


def forget(path: str) -> None:
    """Use this environment no more: what looked whole has failed, and is installed anew when it is next asked for.

    Raises OSError."""
    try:
        os.unlink(f"{path}/{MARKER}")
    except (FileNotFoundError, NotADirectoryError):
        return


def _names(directory: int) -> list[str]:
    names: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if len(names) == MAX_ENTRIES:  # nobody but the agent puts so many there, and it has what it asked for
                break
            names.append(entry.name)
    return names


def _hash_of(name: str, directory: int) -> str:
    """The hash of the whole environment `name`; empty when it is none, or is not whole."""
    match = _ENVIRONMENT.fullmatch(name)
    if not match:
        return ""
    try:
        inner = os.open(name, _SAFE | os.O_DIRECTORY, dir_fd=directory)
    except OSError:
        return ""
    try:
        marked = (_read(MARKER, inner, 65) or b"").decode("ascii", errors="replace")
        # Followed: it is a link to the interpreter of the machine, which an upgrade can have taken away.
        python = os.stat("bin/python", dir_fd=inner).st_mode
    except OSError:
        return ""
    finally:
        os.close(inner)
    whole = re.fullmatch(r"[0-9a-f]{64}\n", marked) and marked.startswith(match["hash"]) and stat.S_ISREG(python)
    return marked[:64] if whole and python & 0o111 else ""


def _read(name: str, directory: int, limit: int) -> bytes | None:
    """A regular file of at most `limit` bytes; None for all else that is there. Raises OSError."""
    descriptor = os.open(name, _SAFE, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = bytearray()
        while len(content) <= limit:
            part = os.read(descriptor, limit + 1 - len(content))
            if not part:
                return bytes(content)
            content += part
        return None
    finally:
        os.close(descriptor)


def _read_own(path: str) -> bytes | None:
    """The keep's own file is trusted. One that has none fits no branch that has one."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
