"""The note that a run without room left leaves for the next one, and how many runs in a row may end so."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from infra.cell.runner.context import RunnerContext
from infra.shared.comms import Directive
from infra.shared.paths import HANDOVER_NOTE
from infra.shared.redacted_file import RedactedFile

MOST_STARTS = 3
"""In a row on the same directives, without a tick of the clock."""


class FreshStarts:
    """How many runs in a row ended for want of room."""

    def __init__(self) -> None:
        self._ids: frozenset[str] = frozenset()
        self._count = 0

    def another(self, ids: Collection[str]) -> bool:
        """Count one more, on these directives; True when the next may begin at once. A directive that is new begins
        another row; one that is gone does not."""
        if not self._ids.issuperset(ids):
            self._ids, self._count = frozenset(ids), 0
        self._count += 1
        return self._count <= MOST_STARTS

    def none(self) -> None:
        """A run ended otherwise."""
        self._ids, self._count = frozenset(), 0


def leave(context: RunnerContext, run: str, tasks: Sequence[Directive], words: str) -> None:
    """Best effort: without it the next run begins with the directives alone."""
    text = f"# Hand-over\n\n- written: {context.now()}, by run {run}\n\n{words}\n"
    try:
        RedactedFile(os.path.join(context.checkout, HANDOVER_NOTE)).replace(text)
    except OSError as error:
        context.log.warning("handover.not_written", path=HANDOVER_NOTE, error=str(error))
    else:
        context.state.change(handover=tuple(task.id for task in tasks))


def exists(context: RunnerContext, tasks: Sequence[Directive]) -> bool:
    """Whether an earlier run left one about any of these directives."""
    about = context.state.memory.handover
    return not {task.id for task in tasks}.isdisjoint(about) and os.path.isfile(
        os.path.join(context.checkout, HANDOVER_NOTE)
    )


def drop(context: RunnerContext) -> None:
    """Its directives are done."""
    if not context.state.memory.handover:
        return
    context.state.change(handover=())
    try:
        os.unlink(os.path.join(context.checkout, HANDOVER_NOTE))
    except OSError as error:
        context.log.warning("handover.not_removed", path=HANDOVER_NOTE, error=str(error))
