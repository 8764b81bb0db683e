"""Snapshots of the mind: annotated tags `snapshot/<kind>/<UTC time>` whose message says why, when, and of which commit.
The keep alone makes and removes them; everybody may read them. `due` is pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from infra.shared.clock import timestamp
from infra.shared.repository.git import Git

TAGS: Final = "refs/tags/snapshot/"
DAILY, WEEKLY, MONTHLY = SCHEDULED = ("daily", "weekly", "monthly")
PRE_MODIFICATION, POST_FAILURE = "pre-modification", "post-failure"
KEPT: Final = {DAILY: 7, WEEKLY: 4, MONTHLY: 12, PRE_MODIFICATION: 20, POST_FAILURE: 20}
"""So many of each kind. Nobody but the keep writes below `snapshot/` in a name that begins with one of these."""
MOST_BYTES: Final = 16 << 20
_LINE = re.compile(rf"((?:{'|'.join(KEPT)})/[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T[0-9-]{{8}}Z) ([0-9a-f]+) (.*)")


class Snapshot(NamedTuple):
    name: str
    """`daily/2026-01-31T10-42-12Z`."""
    commit: str
    reason: str

    @property
    def kind(self) -> str:
        return self.name.partition("/")[0]

    @property
    def at(self) -> str:
        """`2026-01-31T10:42:12Z`."""
        day, _, time = self.name.partition("/")[2].partition("T")
        return f"{day}T{time.replace('-', ':')}"

    @property
    def period(self) -> str:
        """Its UTC day, ISO week or month, of which one is enough; of one that no clock makes due, its moment."""
        week = f"{datetime.date.fromisoformat(self.at[:10]):%G-W%V}"
        return {DAILY: self.at[:10], WEEKLY: week, MONTHLY: self.at[:7]}.get(self.kind, self.at)


def due(
    existing: Sequence[Snapshot], tip: str, now: float, beside: Mapping[str, str]
) -> tuple[list[Snapshot], list[Snapshot]]:
    """What to make and what to prune at this moment, with the branch at `tip`. `beside`: kinds of which one is due
    besides, and what it is about.

    One of a kind in each of its periods in which the mind has changed; after a down time one, not many. When the clock
    is set back, nothing is made again of what is there, and what was made ahead of it counts as the newest."""
    make, prune = list[Snapshot](), list[Snapshot]()
    for kind, most in KEPT.items():
        there = sorted(each for each in existing if each.kind == kind)
        new = snapshot_of(kind, now, tip, beside.get(kind, ""))
        present = [each for each in there if each.period == new.period]
        if (kind in SCHEDULED or kind in beside) and not present and (not there or there[-1].commit != tip):
            make.append(new)
            present, there = [new], sorted((*there, new))
        prune += [each for each in there if each not in present][: max(0, len(there) - most)]
    return make, prune


def snapshot_of(kind: str, now: float, commit: str, about: str = "") -> Snapshot:
    """`about` is added to the reason: which version, say."""
    why = "scheduled" if kind in SCHEDULED else kind
    return Snapshot(f"{kind}/{timestamp(now)[:19].replace(':', '-')}Z", commit, f"{why}: {about}".removesuffix(": "))


def snapshots(git: Git) -> list[Snapshot]:
    """The oldest first. Raises GitError."""
    shown = "--format=%(refname:lstrip=3) %(*objectname) %(contents:subject)"
    lines = git.saying_at_most(MOST_BYTES)("for-each-ref", shown, TAGS).splitlines()
    found = (Snapshot(*match.groups()) for match in map(_LINE.fullmatch, lines) if match)
    return sorted(found, key=lambda each: (each.at, each.name))


def make(git: Git, snapshot: Snapshot) -> None:
    """`git` in the watcher's name. Raises GitError."""
    message = f"{snapshot.reason}\n\ntime: {snapshot.at}\ncommit: {snapshot.commit}\n".encode(errors="replace")
    git("tag", "--annotate", "--file=-", f"snapshot/{snapshot.name}", snapshot.commit, stdin=message)


def prune(git: Git, over: Sequence[Snapshot]) -> None:
    """Where git may not replace packed-refs, as in the container, a packed tag stays; it is tried again with the next
    change. Raises GitError."""
    if over:
        git.ok("tag", "--delete", *(f"snapshot/{each.name}" for each in over))
