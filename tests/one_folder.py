"""A project whose agents are born with one folder of tests: with all of them an examination takes minutes."""

from __future__ import annotations

from pathlib import Path

KEPT = ("shared/__init__.py", "cell/protocol/fuzz.py", "cell/protocol/test_fuzz.py", "cell/run/__init__.py")
"""Of the tests that agents are born with; what the demo adds lies in the last one's folder."""


def leave_one_folder(tests: Path) -> None:
    """Take the rest out of the `tests` of a copy of the project."""
    for folder in ("cell", "keep", "shared"):
        for path in [path for path in (tests / folder).rglob("*") if path.is_file()]:
            if not path.relative_to(tests).as_posix().startswith(KEPT):
                path.unlink()
