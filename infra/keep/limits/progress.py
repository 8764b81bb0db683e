"""What the agent brings about, by the keep's own books: model calls that ended, and news in the shared repository
that is not the watcher's. What the agent says of itself (`life.json`) does not count."""

from __future__ import annotations

import os

import msgspec

from infra.keep.limits.values import Progress
from infra.shared.branches import MAIN, MIND, RESCUE
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git
from infra.shared.safe_files import opened_file

LEDGER_BYTES = 1 << 20
"""Read at one look; the rest at the next."""
HEADS = 2000
LOOK_SECONDS = 5.0
_LOOKED_BACK = 50


class _Line(msgspec.Struct, frozen=True):
    """What is of interest of a line of the ledger."""

    event: str = ""
    error: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_write_tokens: int = 0


def look(places: Paths, before: Progress | None) -> Progress:
    """Counted on from `before`; without it, from here. Raises OSError, GitError."""
    heads = _heads(Git(places.remote).within(LOOK_SECONDS))
    if before is None:
        return Progress(ledger_end=_size(places.ledger), heads=heads)
    lines, end = _new_lines(places.ledger, before.ledger_end)
    settled = [line for line in lines if line.event == "settled"]
    tokens = sum(max(0, line.input_tokens + line.output_tokens + line.cache_write_tokens) for line in settled)
    moved = has_moved(places, dict(before.heads), dict(heads))
    calls = before.calls + sum(line.error is None for line in settled)
    return Progress(calls, before.tokens + tokens, before.moves + moved, end, heads)


def has_moved(places: Paths, before: dict[str, str], after: dict[str, str]) -> bool:
    """A branch has something new. What the watcher itself adds to main, such as a report on this very trouble, is none.

    Raises GitError."""
    new = {name: commit for name, commit in after.items() if before.get(name) != commit}
    if new.keys() - {MAIN}:
        return True
    if MAIN not in new or MAIN not in before:
        return MAIN in new
    git = Git(places.remote).within(LOOK_SECONDS)
    span = (f"--max-count={_LOOKED_BACK}", "--format=%ce", new[MAIN], f"^{before[MAIN]}")
    return any(committer != WATCHER.email for committer in git("log", *span).splitlines())


def _heads(git: Git) -> tuple[tuple[str, str], ...]:
    """Name and commit of each branch on which work may be; the mind is kept without anybody having done anything."""
    listed = git("for-each-ref", f"--count={HEADS}", "--format=%(objectname) %(refname:lstrip=2)", "refs/heads")
    pairs = (line.split(" ", 1) for line in listed.splitlines())
    return tuple((name, commit) for commit, name in pairs if name != MIND and not name.startswith(RESCUE))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:  # no call was ever made
        return 0


def _new_lines(path: str, start: int) -> tuple[list[_Line], int]:
    """The whole lines from `start` on, and where they end. A line that is none is passed over."""
    try:
        file = opened_file(path)
    except FileNotFoundError:
        return [], 0
    with file:
        size = os.fstat(file.fileno()).st_size
        if size < start:  # another ledger took its place
            return [], size
        content = os.pread(file.fileno(), LEDGER_BYTES, start)
    end = content.rfind(b"\n") + 1
    if not end and len(content) == LEDGER_BYTES:  # no line of ours is so long
        end = len(content)
    found = []
    for text in content[:end].splitlines():
        try:
            found.append(msgspec.json.decode(text, type=_Line))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return found, start + end
