"""What can be known of a world: the list that a generator keeps outside the container."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from llm_driver import Question

DISCOVERY = Path(__file__).resolve().parents[1]
SEED_WORLD, SEED_KNOWN = DISCOVERY / "world", DISCOVERY / "scoring" / "seed_known.json"
NAME = "known.json"
VERSION = 1


class KnownError(Exception):
    """The list cannot be used: why."""


def find(world: Path, named: Path | None) -> Path | None:
    """The list of this world: the one named, the one beside it, or that of the seed world; None when there is none.

    Raises KnownError when the one named is not there."""
    if named:
        if not named.is_file():
            raise KnownError(f"--known: there is no file {named}")
        return named
    beside = world.parent / NAME
    if beside.is_file():
        return beside
    return SEED_KNOWN if world == SEED_WORLD and SEED_KNOWN.is_file() else None


def read(path: Path | None) -> dict[str, Any]:
    """The list; empty without one. Raises KnownError."""
    if path is None:
        return {}
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise KnownError(f"{path} cannot be read: {error}") from None
    if not isinstance(known, dict) or known.get("version") != VERSION:
        raise KnownError(f"{path} is no list of version {VERSION} of what can be known of a world")
    return known


def questions(known: dict[str, Any]) -> list[Question]:
    """What is asked after a run; never the answers. Raises KnownError."""
    try:
        return [Question(str(one["id"]), str(one["text"])) for one in known.get("questions", [])]
    except (TypeError, KeyError) as error:
        raise KnownError(f"the questions of the list of what can be known are not understood: {error!r}") from None
