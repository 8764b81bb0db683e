"""What the keep hands to the examiner's process: one line of JSON, then a pack of git objects. Pure."""

from __future__ import annotations

import sys

import msgspec

from infra.keep.verdicts.selection import Selection

CLEAR_SECONDS = 30.0


class ExaminationSettings(msgspec.Struct, frozen=True):
    """The PM's, as far as they matter here."""

    rehearse: bool = True
    rehearsed: bool = False
    """This very version has lived through a rehearsal already."""
    rehearsal_seconds: float = 20.0
    seconds: float = 900.0
    """For all tests together."""
    clear_seconds: float = CLEAR_SECONDS
    """For removing what an examination has written, at its beginning and at its end."""


class Plan(msgspec.Struct, frozen=True):
    branch: str
    commit: str
    main: str
    key: str
    candidate: str
    """A commit in the pack: what merging would make of main."""
    with_mains_tests: str
    """The same with main's tests and pytest settings."""
    mains: str
    """Main as it is."""
    selection: Selection
    settings: ExaminationSettings
    python: str = sys.executable
    """Starts the candidate's runner in the rehearsal."""


def to_bytes(plan: Plan, pack: bytes) -> bytes:
    return msgspec.json.encode(plan) + b"\n" + pack


def from_bytes(content: bytes) -> tuple[Plan, bytes]:
    """Raises ValueError."""
    line, _, pack = content.partition(b"\n")
    return msgspec.json.decode(line, type=Plan), pack
