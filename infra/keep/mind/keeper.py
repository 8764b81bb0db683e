"""The watcher's care for the mind: its snapshots, and whether what is the PM's alone in it is as the PM wrote it.

It is the watcher's, not the git door's, for two reasons: the watcher alone sees each version being launched, by
whatever way it became the next one, and has the right to read the cell's clone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from infra.keep.mind import drift, files, snapshots
from infra.keep.mind.kept import FILE, Baseline, MindKept, encode_kept, read_kept
from infra.keep.mind.snapshot_tags import Snapshot, SnapshotKind
from infra.keep.mind.snapshot_tags import snapshots as listed
from infra.shared.branches import MIND
from infra.shared.clock import moment, timestamp
from infra.shared.files import write_whole
from infra.shared.identity import Identity
from infra.shared.mind.layout import IDENTITY
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError, GitLimits, resolve_commit
from infra.shared.repository.tip import read_file
from infra.shared.secret_shapes import redacted_and_cut

GIT_SECONDS = 10.0
"""For all git calls of one look: the watcher waits."""
LIMITS = GitLimits(answer_bytes=16 << 20, memory_bytes=1 << 30)
LOOK_SECONDS = 60.0
"""Between two looks at a mind that has not moved: a period may have begun."""
AGAIN_SECONDS = 600.0
"""After a look that failed."""
COMPARE_SECONDS = 7 * 86_400.0
REF = f"refs/heads/{MIND}"


class MindFinding(NamedTuple):
    """For the PM."""

    title: str
    text: str


class MindKeeper:
    """Of one agent. No method raises."""

    def __init__(
        self,
        places: Paths,
        cell: Identity,
        on_drift: str,
        log: structlog.stdlib.BoundLogger,
        wall: Callable[[], float] = time.time,
        kept: snapshots.Kept = snapshots.USUAL,
    ) -> None:
        self._places, self._cell, self._on_drift, self._log, self._wall = places, cell, on_drift, log, wall
        self._snapshots_kept = kept
        self._due = 0.0
        self._seen: tuple[object, ...] = ()
        self._settled = ("", "")
        """The tip and the day for which nothing is left to do."""
        self._entries = ""
        """Of the PM's files on the branch, at the last look."""
        self._drift: tuple[str, ...] | None = None
        """At the last look; None before the first."""

    @property
    def drifted(self) -> str:
        """Why safe mode is in place; empty when nothing drifted, or the PM wants no safe mode for that."""
        if self._on_drift != "safe_mode":
            return ""
        if self._drift is None:
            self._drift = self._kept().drift
        return "; ".join(self._drift)

    def look(self, at: float) -> list[MindFinding]:
        """What is due at this moment of the monotonic clock."""
        signature = self._signature()
        if at < self._due and signature == self._seen:
            return []
        self._due, self._seen = at + LOOK_SECONDS, signature
        return self._guarded(self._look, at)

    def before_launch(self, what: str, is_modification: bool, failed: str) -> list[MindFinding]:
        """A version is about to be launched, `what` in words: this is where each way to another version meets. `failed`
        is why the one before fell back."""
        return self._guarded(lambda: self._before_launch(what, is_modification, failed), 0.0)

    def _guarded(self, do: Callable[[], list[MindFinding]], at: float) -> list[MindFinding]:
        try:
            return do()
        except (GitError, OSError, ValueError) as error:
            self._due = at + AGAIN_SECONDS
            self._settled = ("", "")
            self._log.error("mind.not_kept", reason=redacted_and_cut(str(error), 1000))
            return []

    def _look(self) -> list[MindFinding]:
        git, now = self._git(), self._wall()
        tip = self._tip(git)
        if not tip:
            return []
        found, day = list[MindFinding](), timestamp(now)[:10]
        if self._settled != (tip, day):
            due = snapshots.due(listed(git), tip, now, self._snapshots_kept)
            snapshots.make(git, due.make, now)
            if self._settled[0] != tip:
                self._follow(git, tip, now)
            self._prune(git, due.prune)
            self._settled = (tip, day)
        kept = self._kept()
        # What drifted is looked at sooner: the cell puts its clone right before its next run.
        seconds = AGAIN_SECONDS if kept.drift else COMPARE_SECONDS
        if not kept.looked_at or not 0 <= now - moment(kept.looked_at) < seconds:
            found += self._compare(git, tip, now)
        return found

    def _prune(self, git: Git, over: Sequence[Snapshot]) -> None:
        """Those that cannot be removed keep nothing else from being done; they are tried again with the next change."""
        try:
            snapshots.prune(git, over)
        except (GitError, OSError) as error:
            self._log.error("mind.snapshots_not_pruned", reason=redacted_and_cut(str(error), 1000))

    def _before_launch(self, what: str, is_modification: bool, failed: str) -> list[MindFinding]:
        git, now = self._git(), self._wall()
        tip = self._tip(git)
        if not tip:
            return []
        there = listed(git)
        wanted = [(SnapshotKind.PRE_MODIFICATION, what)] if is_modification else []
        wanted += [(SnapshotKind.POST_FAILURE, redacted_and_cut(" ".join(failed.split()), 200))] if failed else []
        made = [snapshots.beside_a_change(there, kind, tip, now, about) for kind, about in wanted]
        snapshots.make(git, [each for each in made if each], now)
        self._follow(git, tip, now)
        return self._compare(git, tip, now)

    def _follow(self, git: Git, tip: str, now: float) -> None:
        """Take over what the PM pushed."""
        entries = files.entries_on_branch(git, tip)
        kept = self._kept()
        if kept.baseline and entries == self._entries:
            return
        found = files.on_branch(git, tip, timestamp(now))
        before = kept.baseline
        agents = self._agents(git, before, found)
        much = 0.0
        if before and drift.identity_changed(before, found) and not agents:
            old = read_file(git, before.commit, IDENTITY) if resolve_commit(git, before.commit) else None
            # What the PM had forgotten is not there any more to be compared with.
            much = drift.share_changed(old, read_file(git, tip, IDENTITY) or "") if old is not None else 0.0
        after = drift.moved(kept, found, agents, much)
        if after != kept:
            self._write(after)
            self._log.info("mind.baseline_moved", commit=tip, files=len(found.files), much=round(much, 3))
        self._entries = entries

    def _agents(self, git: Git, before: Baseline | None, found: Baseline) -> list[str]:
        differing = drift.differences(before.files, found.files) if before else []
        return files.last_changed_by_agent(git, found.commit, differing)

    def _compare(self, git: Git, tip: str, now: float) -> list[MindFinding]:
        kept = self._kept()
        lines = drift.drift_of_branch(self._agents(git, kept.baseline, files.on_branch(git, tip, timestamp(now))))
        clone = files.in_clone(self._places, self._cell)
        lines += drift.drift_of_clone(kept, clone) if clone is not None else []
        before, after = kept.drift, tuple(lines)
        self._drift = after
        self._write(replace(kept, drift=after, looked_at=timestamp(now)))
        if after and after != before:
            self._log.warning("mind.drifted", lines=list(after))
            return [MindFinding("the mind has drifted", _report(after, self._on_drift))]
        if before and not after:
            self._log.info("mind.right_again")
        return []

    def _tip(self, git: Git) -> str:
        """Empty when there is no mind; told without git as far as can be."""
        if self._signature() == (None, None):
            return ""
        return resolve_commit(git, REF) or ""

    def _signature(self) -> tuple[object, ...]:
        """Differs when the branch may have moved: a status of the files that say where it is."""
        return tuple(_status(f"{self._places.remote}/{name}") for name in (REF, "packed-refs"))

    def _git(self) -> Git:
        remote = self._places.remote
        return Git(remote, WATCHER, {"GIT_DIR": remote}, limits=LIMITS).within(GIT_SECONDS)

    def _kept(self) -> MindKept:
        """A file that is no such file is begun anew: the branch is the truth, and the log says so."""
        try:
            return read_kept(self._places.var) or MindKept()
        except ValueError as error:
            self._log.error("mind.state_not_readable", reason=redacted_and_cut(str(error), 500))
            return MindKept()

    def _write(self, kept: MindKept) -> None:
        write_whole(f"{self._places.var}/{FILE}", encode_kept(kept), 0o600)


def _status(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _report(lines: tuple[str, ...], on_drift: str) -> str:
    then = (
        "mind.on_drift is 'safe_mode': the image's own runner works until that is right."
        if (on_drift == "safe_mode")
        else "The agent works on (mind.on_drift is 'report')."
    )
    listed_lines = "\n".join(f"- {line}" for line in lines)
    return (
        f"Files of the mind that are yours alone are not as you pushed them:\n\n{listed_lines}\n\n{then} The agent "
        "puts its clone right before its next run. What the branch holds, you put right: 'minifram mind restore'."
    )
