"""The files that differ between two commits, asked so that no commit can take endless time or memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from infra.shared.paths import PAGES
from infra.shared.repository.git import Git


class Change(NamedTuple):
    """Modes are git's own, such as `100644`; empty where the file is not there."""

    path: str
    mode_before: str
    id_before: str
    mode: str
    id: str = ""


def parse_raw(answer: bytes) -> Iterator[Change | str]:
    """What `--raw -z` (git-diff-tree(1)) says: changes, and as text the headers between them."""
    fields = iter(answer.decode(errors="surrogateescape").split("\0"))
    for field in fields:
        field = field.removeprefix("\n")  # there is one between a header and the first change
        if field.startswith(":"):  # :<mode> <mode> <id> <id> <letter>; the path is the next field
            # Of a merge shown as one change (-c) there are as many colons, modes and ids before as it has parents.
            words = field.lstrip(":").split(" ")
            before = len(field) - len(field.lstrip(":"))
            yield Change(next(fields), _mode(words[0]), words[before + 1], _mode(words[before]), words[2 * before + 1])
        elif field:
            yield field


def _mode(text: str) -> str:
    return text if text.strip("0") else ""


COMPARE = ("--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "-z")
"""How git is to show changes for `parse_raw`."""


def changes_beyond_page(git: Git, old: str, new: str) -> bool:
    """True when anything but COMMS.md and its archive differs between two commits."""
    # One level is enough: below it can be a tree of trees without end.
    found = parse_raw(git.raw("diff-tree", *COMPARE, old, new, "--"))
    # A directory COMMS.md is not the page.
    return any(
        change.path not in PAGES or _DIRECTORY in (change.mode_before, change.mode)
        for change in found
        if isinstance(change, Change)
    )


_DIRECTORY = "040000"
