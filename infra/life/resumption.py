"""Whether the last run of this checkout was cut short and can be gone on with: its directives are still there, it is
not old, and it was not gone on with too often (a run that ends each runner would otherwise never end)."""

from __future__ import annotations

import calendar
import json
import os
import time
from collections.abc import Collection, Iterator
from typing import Any

from infra.life.home import Home
from infra.life.transcript import GAPS, SUFFIX, machine_boot
from infra.loop.loop import End
from infra.loop.recorded import Recorded, recorded

MOST_TIMES = 3
MOST_AGE_SECONDS = 86_400.0
MOST_BYTES = 64 << 20
"""Of a transcript; a longer one is not gone on with."""


def cut_short(home: Home, transcripts: str, open_directives: Collection[str]) -> Recorded | None:
    """The run to go on with, if there is one."""
    path = last_transcript(transcripts)
    if path is None or path.endswith(GAPS + SUFFIX):
        return None
    try:
        run = recorded(lines_of(path))
    except (OSError, ValueError) as error:
        home.log.warning("run.not_resumed", transcript=os.path.basename(path), why=str(error))
        return None
    why_not = why_not_resumed(run, open_directives, machine_boot(), time.time())
    if why_not is None:
        return run
    if why_not:
        home.log.info("run.not_resumed", unit=run.run_id, why=why_not)
    return None


def why_not_resumed(run: Recorded, open_directives: Collection[str], machine: str, wall_now: float) -> str | None:
    """None when it is to be gone on with; empty when there is nothing to be said of it."""
    if run.end not in ("", End.INTERRUPTED.value) or any(done.reply.hands_over for done in run.done.values()):
        return ""
    if run.machine != machine:
        return "the machine was started anew, so the end of its record may be missing"
    if not run.steps:
        return "the model had not answered"
    if not run.directives or not set(run.directives) <= set(open_directives):
        return "its directives are not open any more"
    if run.fruitless:
        return "the last runner that went on with it ended before the model had answered"
    if run.resumed >= MOST_TIMES:
        return f"it was gone on with {run.resumed} times"
    if not 0 <= wall_now - _seconds(run.at) <= MOST_AGE_SECONDS:
        return f"its last line is of {run.at}"
    return None


def last_transcript(directory: str) -> str | None:
    """By name, which begins with the time."""
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(SUFFIX))
    except OSError:
        return None
    return os.path.join(directory, names[-1]) if names else None


def lines_of(path: str) -> Iterator[dict[str, Any]]:
    """All lines but a torn one. Raises OSError, and ValueError for what is no transcript."""
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"the transcript is over {MOST_BYTES} bytes")
    for line in content.split(b"\n"):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue  # empty, or cut by a full disk or a power cut
        if isinstance(found, dict):
            yield found


def _seconds(at: str) -> float:
    """Of `contract.clock.timestamp`; 0 for anything else."""
    try:
        return calendar.timegm(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return 0.0
