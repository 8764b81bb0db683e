"""Beginning anew when a conversation has no room left: the hand-over that one unit of work leaves for the next, and
how often that may happen."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from infra.cell.runner.home import Home
from infra.shared.comms import Directive
from infra.shared.files import write_whole

NOTE = "logs/hand-over.md"
NOTE_HEAD_BYTES = 64 * 1024
"""Within these it says which directives it is about."""
MOST_STARTS = 3
"""In a row on the same directives, without a tick of the clock."""

_ABOUT = "- directives: "


class FreshStarts:
    """How often in a row units have ended for want of room."""

    def __init__(self) -> None:
        self._ids: frozenset[str] = frozenset()
        self._count = 0

    def another(self, ids: Collection[str]) -> bool:
        """One more, on these directives; whether the next may begin at once. A directive that is new counts anew; one
        that is gone does not."""
        if not self._ids.issuperset(ids):
            self._ids, self._count = frozenset(ids), 0
        self._count += 1
        return self._count <= MOST_STARTS

    def none(self) -> None:
        """A unit ended otherwise."""
        self._ids, self._count = frozenset(), 0


def leave_note(home: Home, unit: str, tasks: Sequence[Directive], words: str) -> None:
    """Best effort: a unit begins anew without it when the disk refuses."""
    about = " ".join(task.id for task in tasks)
    text = f"# Hand-over\n\n- written: {home.now()}, by unit {unit}\n{_ABOUT}{about}\n\n{words}\n"
    try:
        write_whole(os.path.join(home.checkout, NOTE), text.encode(errors="replace"))
    except OSError as error:
        home.log.warning("hand_over.not_written", path=NOTE, error=str(error))


def has_note(home: Home, tasks: Sequence[Directive]) -> bool:
    """Whether a unit before left one about any of these directives."""
    try:
        descriptor = os.open(os.path.join(home.checkout, NOTE), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            head = os.read(descriptor, NOTE_HEAD_BYTES)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    about = [line for line in head.decode(errors="replace").splitlines() if line.startswith(_ABOUT)]
    return bool(about) and not {task.id for task in tasks}.isdisjoint(about[0].removeprefix(_ABOUT).split())


def drop_note(home: Home) -> None:
    """Its directives are done."""
    try:
        os.unlink(os.path.join(home.checkout, NOTE))
    except FileNotFoundError:
        return
    except OSError as error:
        home.log.warning("hand_over.not_removed", path=NOTE, error=str(error))
