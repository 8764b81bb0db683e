"""The taint of the work under way, as the door's requests see it: looked at first, and said under reports."""

from __future__ import annotations

import os
import threading
from functools import partial

from infra.keep.git_door import taint
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.leftovers import left_by
from infra.shared import comms
from infra.shared.identity import OURS
from infra.shared.repository.git import GitError
from infra.shared.secret_shapes import redacted
from infra.shared.taint import state_file
from infra.shared.taint.machine import TaintState, origins_words

SECONDS = 20.0
"""For all git calls of one look."""


def look_at_taint(context: DoorContext) -> TaintState:
    """Never raises: what cannot be told is taint."""
    git, places = context.git().within(SECONDS), context.places
    left = partial(left_by, places, git, OURS) if _clones_are_ours(places.bot) else None
    return taint.look(places.var, git, left, context.wall_seconds())


def _clones_are_ours(bot: str) -> bool:
    """In the container they are the cell's, whose files this door has no right to read: there the watcher looks."""
    try:
        return os.stat(bot).st_uid == os.geteuid()
    except OSError:
        return False


def look_aside(context: DoorContext) -> None:
    """For when main has moved; looking through clones can take a moment, and nobody waits for it."""
    if state_file.is_there(context.places.var):
        threading.Thread(target=look_at_taint, args=(context,), daemon=True).start()


def work_is_done(context: DoorContext, before: TaintState) -> None:
    """A report has ticked directives; `before`: as it was when the report came. Never raises: what is not noted stays
    tainted."""
    tied = before.now.tied if before.now else ()
    try:
        taint.end_work(context.places.var, context.git(), tied, context.wall_seconds())
    except (OSError, GitError, comms.CommsError) as error:
        context.log.error("taint.not_ended", reason=redacted(str(error)))


def line_under_report(state: TaintState) -> str:
    """For what the keep records; empty when there is nothing to say. Origins hold no characters that mean anything to
    Markdown but brackets and underscores."""
    if state.now is None:
        return ""
    return f"- **Tainted: this work has read the web** ({redacted(_harmless(origins_words(state.now.origins)))})"


def _harmless(text: str) -> str:
    return text.translate({ord(each): f"\\{each}" for each in "_[]*`"})
