"""This version's examination, as its runner sees it: it asks the keep for one, and waits."""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.cell.cell import TENDING_SECONDS, Cell
from infra.cell.doors import Refused
from infra.shared.door import DoorAway
from infra.shared.requests import Examination

GRACE_SECONDS = 600.0
"""Over the time that the tests may take: for the rehearsal, and for an examination that came before."""
ASK_AGAIN_SECONDS = 1.0
Examine = Callable[[str, str], Examination]
"""Of a branch at a commit, by the keep (`doors.Keep.examine`)."""


def wait(
    context: Cell,
    commit: str,
    examine: Examine,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> Examination:
    """Ask again and again until the keep has examined this commit of the branch. Raises Interrupted."""
    end = clock() + context.boot.limits.validation_seconds + GRACE_SECONDS
    trouble = ""
    while clock() < end:
        context.heartbeat.beat("awaiting its examination", TENDING_SECONDS)
        try:
            found = examine(context.boot.branch, commit)
        except Refused as no:
            return Examination("examined", words=str(no))
        except DoorAway as error:
            trouble = str(error)
        else:
            if found.state == "examined":
                return found
            trouble = "the keep has not come to an end with it"
        with context.interruption:
            pause(ASK_AGAIN_SECONDS)
    return Examination("waiting", words=f"no verdict in time: {trouble}; bootstrap again later")
