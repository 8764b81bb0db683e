"""The cell's part of `minifram mind forget`: its files of events without what is forgotten, and no clone of the history
as it was. Everything is done with the cell's own rights.

In a container these files belong to a user of its namespace, and the host's command runs this module there."""

from __future__ import annotations

import json
import os
import subprocess  # noqa: F401 - removing needs it, and the cell may not read the PM's Python
import sys
from typing import NamedTuple

from infra.shared.branches import MIND
from infra.shared.identity import OURS, Identity
from infra.shared.mind.event import SUFFIX
from infra.shared.mind.forgetting import EventsForgotten, Forgetting, forget_events
from infra.shared.mind.layout import EVENTS
from infra.shared.safe_files import Below
from infra.shared.safe_steps import NotPlain

MOST_FILES, MOST_BYTES = 10_000, 256 << 20
MOST_NAMES = 10_000
LOOK, DO = "look", "do"


class CellForgotten(NamedTuple):
    events: int
    """That held something of it."""
    hashes: dict[str, str]
    """Of events that are others by that: old -> new."""


def forget_in_cell(bot: str, cell: Identity, forgetting: Forgetting, is_done: bool) -> CellForgotten:
    """Without `is_done` it only looks. What is forgotten is the same each time, so a broken off one is repeated. Raises
    OSError."""
    below = Below(bot, cell)
    below.names("", 1)  # what cannot be read is told, and not taken for a mind that is not there
    if not below.is_directory(MIND):
        if is_done:
            below.unlink(MIND)
        return CellForgotten(0, {})
    done = _events(below, forgetting)
    if is_done:
        for path, content in done.files.items():
            below.write(f"{MIND}/{path}", content)
        _remove_clone(below)
    return CellForgotten(done.changed, done.hashes)


def _events(below: Below, forgetting: Forgetting) -> EventsForgotten:
    where = f"{MIND}/{EVENTS}"
    if not below.is_directory(where):
        return EventsForgotten({}, 0, {})
    names = below.names(where, MOST_FILES + 1)
    if len(names) > MOST_FILES:
        raise NotPlain(f"{below.root}/{where} holds over {MOST_FILES:,} files; find out what writes them")
    named = sorted(name for name in names if name.endswith(SUFFIX))
    return forget_events({f"{EVENTS}/{name}": below.whole(f"{where}/{name}", MOST_BYTES) for name in named}, forgetting)


def _remove_clone(below: Below) -> None:
    """All of it but the events: the runner makes it again, from the branch as it is now. Its index of `recall` and all
    else in `scratch/` go too."""
    directories = EVENTS.split("/")
    where = MIND
    for kept in directories:
        for name in below.names(where, MOST_NAMES):
            if name != kept:
                below.remove(f"{where}/{name}")
        where = f"{where}/{kept}"
        if not below.is_directory(where):
            below.unlink(where)
            return
    for name in below.names(where, MOST_NAMES):
        if not name.endswith(SUFFIX):
            below.remove(f"{where}/{name}")


def main(stdin: bytes) -> str:
    """Called with what is wanted as JSON; the words are on no command line."""
    wanted = json.loads(stdin)
    cell = Identity(wanted["uid"], wanted["uid"]) if wanted["uid"] is not None else OURS
    forgetting = Forgetting(tuple(wanted["words"]), tuple(wanted["ids"]))
    os.chdir(wanted["bot"])  # as the PM: the cell may not enter the directories above
    return json.dumps(forget_in_cell(".", cell, forgetting, wanted["do"] == DO)._asdict())


if __name__ == "__main__":
    print(main(sys.stdin.buffer.read()))
