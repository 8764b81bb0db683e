"""Whether the log of events can be trusted: can events be added, are there any where runs happened, is the chain whole?
Pure but for `problem_with_appending`, which looks and writes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from infra.shared.mind.event import EventProblem, path_of
from infra.shared.mind.layout import EVENTS
from infra.shared.safe_files import Below
from infra.shared.text import counted

LEAST_FREE_BYTES = 16 << 20
"""Of the disk: runs need more than their events."""
MOST_SHOWN = 5


class LogState(NamedTuple):
    """What is known of the log."""

    append_problem: str
    """As `problem_with_appending` gives it; empty when events can be added."""
    events: int
    last_event_at: str
    """As `clock.timestamp` writes it; empty without one."""
    runs: int
    """That have ended and left another trace: transcripts, or the keep's heads."""
    last_run_at: str
    heads: int
    """That the keep has noted, of the chain of today."""
    chain: Sequence[EventProblem]
    """What `event_chain.verify` found."""
    unread: Sequence[EventProblem] = ()
    """Lines that this version cannot read; torn ones are none of them, as a power cut leaves such."""


class LogIntegrity(NamedTuple):
    problems: tuple[str, ...]
    """Each says what to do next."""
    warnings: tuple[str, ...]
    words: str
    """In one line, for a log that is sound."""

    @property
    def is_sound(self) -> bool:
        return not self.problems


def log_integrity(state: LogState) -> LogIntegrity:
    problems, warnings = list[str](), list[str]()
    if state.append_problem:
        problems.append(f"no event can be added, so every run ends at once: {state.append_problem}")
    if state.runs and not state.events:
        runs = f"{counted(state.runs, 'run')} happened and left no event"
        problems.append(f"{runs}: look into {EVENTS} of the mind; a backup may hold them ('minifram restore')")
    elif state.events and state.last_run_at[:10] > state.last_event_at[:10]:
        warnings.append(
            f"the last run was on {state.last_run_at[:10]}, the last event is of {state.last_event_at[:10]}"
        )
    for finding in state.chain[:MOST_SHOWN]:
        problems.append(f"{finding}; 'minifram events --verify' shows all")
    if len(state.chain) > MOST_SHOWN:
        problems.append(f"and {len(state.chain) - MOST_SHOWN} more")
    if state.events and state.runs and not state.heads:
        warnings.append("the keep has noted the end of no run, so that a rewritten chain could not be told")
    if state.unread:
        warnings.append(f"{counted(len(state.unread), 'line')} cannot be read, the first is {state.unread[0]}")
    sound = (
        f"{counted(state.events, 'event')}, the chain is whole, the keep knows the end of {counted(state.heads, 'run')}"
    )
    return LogIntegrity(tuple(problems), tuple(warnings), sound)


def problem_with_appending(mind: Below, at: str) -> str:
    """Why no event of this time could be appended, as far as that is to be seen; empty when one could."""
    path = path_of(at)
    for directory in (os.path.dirname(EVENTS), EVENTS):
        status = mind.status(directory)
        if status and not stat.S_ISDIR(status.st_mode):
            return f"{directory} in the mind is no directory; move it away"
        if status and not status.st_mode & stat.S_IWUSR:
            return f"{directory} in the mind is not to be written; 'chmod u+w' gives that back"
    status = mind.status(path)
    if status and not stat.S_ISREG(status.st_mode):
        return f"{path} in the mind is no regular file; move it away"
    if status and not status.st_mode & stat.S_IWUSR:
        return f"{path} in the mind is not to be written; 'chmod u+w' gives that back"
    try:
        disk = os.statvfs(mind.root)
    except FileNotFoundError:  # the next run makes it
        return ""
    except OSError as error:
        return f"the mind cannot be looked at: {error.strerror}"
    free = disk.f_bavail * disk.f_frsize
    return "" if free >= LEAST_FREE_BYTES else f"its disk has {free >> 20} MiB left; make room"
