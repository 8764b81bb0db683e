"""What is wrong with a file of the mind, in words for the PM and the agent. What is wrong stays in its place; the sound
rest of the file counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MOST_NAMED = 50
"""Problems of one file that are named one by one."""


class MindProblem(NamedTuple):
    path: str
    """In the mind."""
    line: int
    """From 1; 0 for the file as a whole."""
    what: str
    """What is there, what was expected, what to do."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}" if self.line else f"{self.path}: {self.what}"


def few(problems: Iterable[MindProblem]) -> tuple[MindProblem, ...]:
    """In the order of lines, with a count in place of the many."""
    ordered = sorted(problems, key=lambda each: each.line)
    more = len(ordered) - MOST_NAMED
    if more <= 0:
        return tuple(ordered)
    return (*ordered[:MOST_NAMED], MindProblem(ordered[0].path, 0, f"{more} more problems; mend these first"))
