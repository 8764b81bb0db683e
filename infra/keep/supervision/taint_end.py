"""When main moves, the taint of the work before may be over: it ends with a look at what that work left in the clones,
for which in the container the watcher alone has the rights."""

from __future__ import annotations

import time
from functools import partial

from infra.keep.git_door import taint
from infra.keep.git_door.leftovers import left_by
from infra.keep.supervision.unchanged import Unchanged
from infra.shared.branches import MAIN
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.repository.git import Git
from infra.shared.taint import state_file

GIT_SECONDS = 10.0


class TaintEnd:
    """Of one agent."""

    def __init__(self, places: Paths, cell: Identity) -> None:
        self._places, self._cell = places, cell
        files = (f"{places.remote}/refs/heads/{MAIN}", f"{places.var}/{state_file.NAME}")
        self._unchanged = tuple(map(Unchanged, files))

    def look(self) -> None:
        """Does nothing until a report has ticked all that the tainted work was for, and main has moved after that."""
        if not state_file.is_there(self._places.var) or all([each.is_it() for each in self._unchanged]):
            return
        for each in self._unchanged:
            each.looked()
        end_taint(self._places, self._cell)


def end_taint(places: Paths, cell: Identity) -> None:
    """Never raises."""
    now = state_file.read(places.var).now
    if now and now.over:
        git = Git(places.remote).within(GIT_SECONDS)
        taint.look(places.var, git, partial(left_by, places, git, cell), time.time())
