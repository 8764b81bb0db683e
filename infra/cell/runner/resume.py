"""Whether the last run of this checkout was cut short and can be resumed: its directives are still open, it is not old,
and runners that resumed it got as far as the model (a run that ends each runner would otherwise never end)."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterator
from typing import Any

from infra.cell.cell import Cell
from infra.cell.loop.recorded import Recorded, recorded
from infra.cell.run_states import StopReason
from infra.cell.runner.transcript import GAPS, SUFFIX, machine_boot
from infra.cell.runner.tries import seconds_of
from infra.shared.safe_files import whole_file

NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z-[0-9a-f]{8}(\.gaps)?\.jsonl")
"""What `run_start` makes; a copy under another name is not a run."""
MOST_TIMES = 3
"""In a row, without getting as far as the model."""
RESUMED = ("", StopReason.INTERRUPTED.value, StopReason.MODEL_UNAVAILABLE.value)
"""Ends of a run that goes on; empty for none on record."""
MOST_AGE_SECONDS = 86_400.0
MOST_BYTES = 16 << 20
"""Of a transcript; a longer one is not resumed."""


def cut_short(context: Cell, transcripts: str, open_directives: Collection[str]) -> Recorded | None:
    """The run to resume, if there is one."""
    name = last_run(transcripts)
    if name is None or name.endswith(GAPS):
        return None
    try:
        run = read(transcripts, name)
    except Exception as error:  # an agent may put anything there, and its next version must start
        context.log.warning("run.not_resumed", run=name, why=f"{type(error).__name__}: {error}")
        return None
    why_not = why_not_resumed(run, open_directives, machine_boot(), time.time())
    if why_not is None:
        return run
    if why_not:
        context.log.info("run.not_resumed", run=run.run_id, why=why_not)
    return None


def why_not_resumed(run: Recorded, open_directives: Collection[str], machine: str, wall_now: float) -> str | None:
    """None when it can be resumed; empty when the reason is not worth a log line."""
    if run.end not in RESUMED or any(done.result.hands_over for done in run.done.values()):
        return ""
    if run.machine != machine:
        return "the machine was restarted, so the end of its record may be missing"
    if not run.steps:
        return "the model had not answered"
    if not run.directives or not set(run.directives) <= set(open_directives):
        return "its directives are not open any more"
    if run.resumed >= MOST_TIMES:
        return f"it was resumed {run.resumed} times, and no runner got as far as the model"
    if not 0 <= wall_now - seconds_of(run.at) <= MOST_AGE_SECONDS:
        return f"its last line is of {run.at}"
    return None


def last_run(directory: str) -> str | None:
    """By name, which begins with the time."""
    try:
        names = os.listdir(directory)
    except OSError:
        return None
    return max((name.removesuffix(SUFFIX) for name in names if NAME.fullmatch(name)), default=None)


def read(directory: str, name: str) -> Recorded:
    """A run by its record. Raises OSError, and ValueError when it cannot be understood or is another's."""
    run = recorded(lines_of(os.path.join(directory, name + SUFFIX)))
    if run.run_id != name:
        raise ValueError(f"the transcript of {name} is that of {run.run_id[:100]!r}")
    return run


def lines_of(path: str) -> Iterator[dict[str, Any]]:
    """All lines; a torn one is skipped at the end, and where a runner resumed behind it. Raises OSError, and
    ValueError for what is not a transcript."""
    lines = whole_file(path, MOST_BYTES).split(b"\n")
    torn = False
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            found = json.loads(line)
        except RecursionError:
            raise ValueError(f"line {number} is nested too deep") from None
        except ValueError:
            found = None
        if torn and (not isinstance(found, dict) or found.get("kind") != "resumed"):
            raise ValueError(f"line {number - 1} of the transcript cannot be read")
        torn = not isinstance(found, dict)
        if isinstance(found, dict):
            yield found
