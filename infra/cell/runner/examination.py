"""This version's examination, as its runner sees it: it asks the keep for one, waits, and reads how it ended. The keep
holds this process while the tests run, so waiting is most of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from infra.cell.doors import Refused
from infra.cell.runner.context import RunnerContext
from infra.shared.control import TENDING_SECONDS
from infra.shared.door import DoorAway
from infra.shared.requests import Examination

GRACE_SECONDS = 600.0
"""Over the time that the tests may take: for the rehearsal, and for an examination that came before."""
ASK_AGAIN_SECONDS = 1.0
Examine = Callable[[str, str], Examination]
"""Of a branch at a commit, by the keep (`doors.Keep.examine`)."""


class Examined(NamedTuple):
    passed: bool
    words: str
    """The verdict in one line, or why there is none."""
    needs_word: tuple[str, ...] = ()
    """What only the PM may agree to."""
    text: str = ""
    """What failed, as the tests tell it."""


def wait(
    context: RunnerContext,
    commit: str,
    examine: Examine,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Examined:
    """Ask again and again until the keep has examined this commit of the branch. Raises Interrupted."""
    end = clock() + context.boot.limits.validation_seconds + GRACE_SECONDS
    trouble = ""
    while clock() < end:
        context.heartbeat.beat("awaiting its examination", TENDING_SECONDS)
        try:
            found = examine(context.boot.branch, commit)
        except Refused as no:
            return Examined(False, str(no))
        except DoorAway as error:
            trouble = str(error)
        else:
            if found.state == "examined":
                return read(found.verdict)
            trouble = "the keep has not come to an end with it"
        with context.interruption:
            pause(ASK_AGAIN_SECONDS)
    return Examined(False, f"no verdict in time: {trouble}; bootstrap again later")


def read(verdict: Mapping[str, Any]) -> Examined:
    """The keep's verdict (SPEC_EXAMINATION)."""
    passed, why = verdict.get("passed") is True, str(verdict.get("why") or "no reason was given")
    needs_word = verdict.get("needs_word")
    listed = tuple(map(str, needs_word)) if isinstance(needs_word, list) else ()
    failures = verdict.get("failures")
    told = [f"{id}:\n{text}" for id, text in failures.items()] if isinstance(failures, dict) else []
    if verdict.get("transcript"):
        told.append(str(verdict["transcript"]))
    return Examined(passed, _words(verdict) if passed else why, listed, "\n\n".join(told))


def _words(verdict: Mapping[str, Any]) -> str:
    def count(run: str, outcome: str) -> int:
        counts = verdict.get(run)
        found = counts.get(outcome) if isinstance(counts, dict) else 0
        return found if isinstance(found, int) else 0

    rehearsed = "rehearsed" if verdict.get("rehearsed") else "not rehearsed"
    own = f", {count('own', 'passed')} of its own passed" if count("own", "passed") else ""
    return f"{rehearsed}, {count('mains', 'passed')} of main's tests passed{own}"
