"""Snapshots of the mind: annotated tags `snapshot/<kind>/<UTC time>` whose message says when, of which commit, and why.
The keep alone makes and removes them; everybody may read them. `due` is pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from infra.shared.clock import timestamp
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git

TAGS = "refs/tags/snapshot/"
DAILY, WEEKLY, MONTHLY = "daily", "weekly", "monthly"
PRE_MODIFICATION, POST_FAILURE = "pre-modification", "post-failure"
SCHEDULED = (DAILY, WEEKLY, MONTHLY)
KEPT: Mapping[str, int] = {DAILY: 7, WEEKLY: 4, MONTHLY: 12, PRE_MODIFICATION: 20, POST_FAILURE: 20}
"""So many of each kind. Nobody but the keep writes below `snapshot/` in a name that begins with one of these."""
MOST_BYTES = 16 << 20


class Snapshot(NamedTuple):
    name: str
    """`daily/2026-01-31T10-42-12Z`."""
    kind: str
    at: str
    """`2026-01-31T10:42:12Z`."""
    commit: str
    reason: str


class Due(NamedTuple):
    make: tuple[Snapshot, ...] = ()
    prune: tuple[Snapshot, ...] = ()


def due(
    existing: Sequence[Snapshot],
    tip: str,
    now: float,
    beside: Mapping[str, str] | None = None,
    kept: Mapping[str, int] = KEPT,
) -> Due:
    """What to do at this moment, `now` in seconds since the epoch, with the branch at `tip`. `beside`: kinds of which
    one is due besides, and what it is about.

    One of a kind in each of its periods in which the mind has changed; after a down time one, not many. When the clock
    is set back, nothing is made again of what is there, and what was made ahead of it counts as the newest."""
    make, prune = list[Snapshot](), list[Snapshot]()
    for kind, keep in kept.items():
        there = sorted((each for each in existing if each.kind == kind), key=lambda each: each.name)
        present = [each for each in there if kind in SCHEDULED and _period(kind, each.at) == _period(kind, now)]
        is_due = kind in SCHEDULED or kind in (beside or {})
        if keep > 0 and is_due and not present and (not there or there[-1].commit != tip):
            made = snapshot_of(kind, now, tip, (beside or {}).get(kind, ""))
            if all(each.name != made.name for each in there):
                make.append(made)
                present, there = [made], sorted([*there, made], key=lambda each: each.name)
        others = [each for each in there if each not in present]
        prune += others[: max(0, len(there) - max(0, keep))]
    return Due(tuple(make), tuple(prune))


def snapshot_of(kind: str, now: float, commit: str, about: str = "") -> Snapshot:
    """`about` is added to the reason: which version, say."""
    at, why = f"{timestamp(now)[:19]}Z", "scheduled" if kind in SCHEDULED else kind
    return Snapshot(f"{kind}/{at.replace(':', '-')}", kind, at, commit, f"{why}: {about}" if about else why)


def _period(kind: str, at: str | float) -> tuple[int, ...]:
    """The UTC day, the ISO week or the month; of a moment that no calendar knows, its own."""
    try:
        day = datetime.fromisoformat(f"{(at if isinstance(at, str) else timestamp(at))[:19]}+00:00").astimezone(UTC)
    except ValueError:
        return ()
    if kind == WEEKLY:
        return tuple(day.isocalendar()[:2])
    return (day.year, day.month, day.day) if kind == DAILY else (day.year, day.month)


_NAME = re.compile(rf"({'|'.join(KEPT)})/([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}T)([0-9]{{2}})-([0-9]{{2}})-([0-9]{{2}})Z")
_REASON = re.compile(r"^reason: (.{1,300})$", re.MULTILINE)
_FORMAT = "%(objecttype) %(*objecttype) %(*objectname) %(taggeremail) %(refname)%00%(contents)%00"


def snapshots(git: Git) -> list[Snapshot]:
    """The keep's, the oldest first. What is no snapshot of the keep's stands there unseen. Raises GitError."""
    listing = ("for-each-ref", f"--format={_FORMAT}", *(f"{TAGS}{kind}" for kind in KEPT))
    fields = git.saying_at_most(MOST_BYTES)(*listing).split("\0")
    found = list[Snapshot]()
    for head, message in zip(fields[::2], fields[1::2], strict=False):
        *words, ref = head.strip("\n").split(" ")
        match, reason = _NAME.fullmatch(ref.removeprefix(TAGS)), _REASON.search(message)
        if match and len(words) == 4 and (words[:2], words[3]) == (["tag", "commit"], f"<{WATCHER.email}>"):
            at = f"{match[2]}{match[3]}:{match[4]}:{match[5]}Z"
            found.append(Snapshot(match[0], match[1], at, words[2], reason[1] if reason else ""))
    return sorted(found, key=lambda each: (each.at, each.name))


def make(git: Git, snapshot: Snapshot) -> None:
    """`git` in the watcher's name. Raises GitError."""
    message = f"Snapshot of the mind ({snapshot.kind})\n\ntime: {snapshot.at}\ncommit: {snapshot.commit}\n"
    stdin = f"{message}reason: {snapshot.reason}\n".encode(errors="replace")
    git("tag", "--annotate", "--file=-", f"snapshot/{snapshot.name}", snapshot.commit, stdin=stdin)


def prune(git: Git, over: Sequence[Snapshot]) -> None:
    """Where git may not replace packed-refs, as in the container, a packed tag stays. Raises GitError."""
    if over:
        git("tag", "--delete", *(f"snapshot/{each.name}" for each in over))
