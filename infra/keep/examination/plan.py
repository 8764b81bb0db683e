"""What the judge hands to the examiner: one line of JSON, then a pack of git objects. Pure."""

from __future__ import annotations

import sys

import msgspec

from infra.keep.verdicts.selection import Selection


class ExaminationSettings(msgspec.Struct, frozen=True):
    """The PM's, as far as they matter here."""

    rehearse: bool = True
    rehearsed: bool = False
    """This very version has lived through a rehearsal already."""
    rehearsal_seconds: float = 20.0
    seconds: float = 900.0
    """For all tests together."""
    whole: bool = False
    """Run everything, also when main's tests that the branch changes fail: it is examined for the second time."""
    python: str = sys.executable
    """Starts the candidate's runner in the rehearsal."""


class Plan(msgspec.Struct, frozen=True):
    """The commits are in the pack, without history."""

    candidate: str
    """What merging would make of main."""
    with_mains_tests: str
    """The same with main's tests and pytest settings."""
    mains: str
    """Main as it is."""
    selection: Selection
    settings: ExaminationSettings
