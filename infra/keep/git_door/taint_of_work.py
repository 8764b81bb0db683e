"""The taint of the work under way, as the door's requests see it: looked at first, and said under reports."""

from __future__ import annotations

import os
import threading
from functools import partial

from infra.keep.git_door import taint, work
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.leftovers import left_by
from infra.shared import comms, watcher_file
from infra.shared.identity import OURS
from infra.shared.repository.git import GitError
from infra.shared.requests import NO_TASK
from infra.shared.safe_files import whole_file
from infra.shared.secret_shapes import redacted
from infra.shared.taint import state_file
from infra.shared.taint.machine import TaintState, origins_words, reported_at

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


def work_begins(context: DoorContext, task: str, state: TaintState) -> TaintState:
    """A run says on which task it begins; gives the taint as it is then. Never raises: what is not noted lasts
    longer."""
    var, git = context.places.var, context.git().within(SECONDS)
    before = work.under_way(var)
    if task == before:
        return state
    try:
        if work.is_question(before):
            work.begin(var, NO_TASK)
            taint.end_work(var, git, (before,), context.wall_seconds())
            before, state = "", look_at_taint(context)
        restarted = _started_at(context) >= reported_at(state)
        if task == NO_TASK and restarted and state.now and state.now.over:
            taint.next_work(var)
            state = look_at_taint(context)
        if not work.may_begin(task, before, work.tasks_on_mind(git), state, restarted):
            return state
        work.begin(var, task)
    except (OSError, GitError) as error:
        context.log.error("work.not_noted", reason=redacted(str(error)))
        return state
    return look_at_taint(context)


def _started_at(context: DoorContext) -> float:
    """When the runner was started; 0 when that cannot be told."""
    try:
        return watcher_file.decode(whole_file(context.places.watcher_state)).runner_started
    except (OSError, ValueError):
        return 0.0


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
