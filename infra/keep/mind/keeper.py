"""The watcher's care for the mind: its snapshots, and whether what is the PM's alone in it is as the PM wrote it.

It is the watcher's, not the git door's, for two reasons: the watcher alone sees each version being launched, by
whatever way it became the next one, and has the right to read the cell's clone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog

from infra.keep.mind import drift, snapshots
from infra.shared.branches import MIND
from infra.shared.identity import Identity
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError, GitLimits, resolve_commit
from infra.shared.secret_shapes import redacted_and_cut

GIT_SECONDS = 10.0
"""For all git calls of one look: the watcher waits."""
LIMITS = GitLimits(answer_bytes=16 << 20, memory_bytes=1 << 30)
LOOK_SECONDS = 60.0
"""Between two looks."""
Finding = tuple[str, str]
"""A title and a text, for the PM."""
_DRIFTED = """Files of the mind that are yours alone are not as you pushed them:

{lines}

By mind.on_drift: {on_drift} {then} until that is right. The agent puts its clone right when a runner starts, and before
each run; 'minifram restart' starts one."""
_THEN = {"safe_mode": "the image's own runner works", "report": "the agent works on"}


class MindKeeper:
    """Of one agent. No method raises."""

    def __init__(
        self,
        places: Paths,
        cell: Identity,
        on_drift: str,
        log: structlog.stdlib.BoundLogger,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._places, self._cell, self._on_drift, self._log, self._wall = places, cell, on_drift, log, wall
        self._due = 0.0
        self._found = drift.MindDrift()

    @property
    def drifted(self) -> str:
        """Why safe mode is in place; empty when nothing drifted, or the PM wants no safe mode for that."""
        return "; ".join(self._found.lines) if self._on_drift == "safe_mode" else ""

    def look(self, at: float) -> list[Finding]:
        """What is due at this moment of the monotonic clock."""
        if at < self._due:
            return []
        self._due = at + LOOK_SECONDS
        return self._looked({})

    def before_launch(self, what: str, is_modification: bool, failed: str) -> list[Finding]:
        """A version is about to be launched, `what` in words: this is where each way to another version meets. `failed`
        is why the one before fell back."""
        beside = {snapshots.PRE_MODIFICATION: what} if is_modification else {}
        beside |= {snapshots.POST_FAILURE: redacted_and_cut(" ".join(failed.split()), 200)} if failed else {}
        return self._looked(beside)

    def _looked(self, beside: Mapping[str, str]) -> list[Finding]:
        try:
            remote, before = self._places.remote, self._found
            git = Git(remote, WATCHER, {"GIT_DIR": remote}, limits=LIMITS).within(GIT_SECONDS)
            clone = drift.in_clone(self._places, self._cell)  # first: what it has by now, the branch has
            tip = resolve_commit(git, f"refs/heads/{MIND}")
            if tip is None:
                return []
            make, prune = snapshots.due(snapshots.snapshots(git), tip, self._wall(), beside)
            for each in make:
                snapshots.make(git, each)
            snapshots.prune(git, prune)
            self._found = drift.look(git, tip, clone)
            drift.write_drift(self._places.var, self._found)
        except (GitError, OSError, ValueError) as error:
            self._log.error("mind.not_kept", reason=redacted_and_cut(str(error), 1000))
            return []
        if self._found.lines in ((), before.lines):
            return []
        lines = "\n".join(f"- {line}" for line in self._found.lines)
        words = _DRIFTED.format(lines=lines, on_drift=self._on_drift, then=_THEN[self._on_drift])
        return [("the mind has drifted", words)]
