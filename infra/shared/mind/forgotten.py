"""Commits of the mind that the PM had rewritten, in `var/mind-forgotten.jsonl`: none of them comes back by a push of a
clone that still has it. The host writes it, the git door reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from infra.shared.files import write_whole
from infra.shared.safe_files import whole_file

FILE = "mind-forgotten.jsonl"
"""In the keep's var: a line for each forgetting."""
MOST_BYTES = 256 << 20


def read_forgotten(var: str) -> frozenset[str]:
    """Raises OSError, ValueError."""
    try:
        content = whole_file(f"{var}/{FILE}", MOST_BYTES)
    except FileNotFoundError:
        return frozenset()
    try:
        return frozenset(commit for line in content.splitlines() for commit in json.loads(line)["commits"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{var}/{FILE} is damaged ({error!r}); the PM puts it back from a copy, or removes it"
        ) from None


def add_forgotten(var: str, at: str, commits: Iterable[str]) -> None:
    """On the disk when this returns. Raises OSError."""
    try:
        before = whole_file(f"{var}/{FILE}", MOST_BYTES)
    except FileNotFoundError:
        before = b""
    line = json.dumps({"at": at, "commits": sorted(commits)}).encode() + b"\n"
    write_whole(f"{var}/{FILE}", before + line, 0o600)
