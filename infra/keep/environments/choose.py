"""Which Python a branch's runner is started with: the keep's own when the branch asks for nothing else than the keep
was installed with, an environment that is there, or one that has to be installed first. A pure function: `shelf` looks
at the disk, `install` makes what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from infra.keep.environments.requirements import fingerprint, understand


class OwnInterpreter(NamedTuple):
    """The one that the keep itself runs with."""


class Existing(NamedTuple):
    """A whole environment, and where it lies."""

    path: str


class Install(NamedTuple):
    """None is there that fits."""

    hash: str


Choice = OwnInterpreter | Existing | Install


def choose(theirs: bytes | None, own: bytes | None, whole: Mapping[str, str], runtime: str, source: str) -> Choice:
    """From the branch's requirements file, the keep's, and the whole environments with their hashes by path.

    A branch without one, or with one that names nothing, asks for nothing of its own. Raises BadRequirements, also
    for a file whose environment is there: it is judged by what it says."""
    if theirs is None or theirs == own:
        return OwnInterpreter()
    wanted = understand(theirs, source)
    if not wanted.text:
        return OwnInterpreter()
    if own is not None and wanted == understand(own, "the keep's own requirements"):
        return OwnInterpreter()
    wanted_hash = fingerprint(wanted, runtime)
    fitting = sorted(path for path, found in whole.items() if found == wanted_hash)
    return Existing(fitting[0]) if fitting else Install(wanted_hash)
