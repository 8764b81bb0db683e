"""Which snapshots of the mind are due, and which have had their day. `due` is pure; `make` and `prune` are tags in the
repository. Only the watcher calls these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from infra.keep.mind.snapshot_tags import SCHEDULED, Snapshot, SnapshotKind, snapshot_of, tag_content
from infra.shared.clock import timestamp
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git

KEEP_OTHERS = 20
"""Of those before a modification, and of those after a failure."""


class Due(NamedTuple):
    make: tuple[Snapshot, ...] = ()
    prune: tuple[Snapshot, ...] = ()


class Kept(NamedTuple):
    """So many snapshots of each kind: a week of days, a month of weeks, a year of months."""

    daily: int = 7
    weekly: int = 4
    monthly: int = 12


USUAL = Kept()


def due(existing: Sequence[Snapshot], tip: str, now: float, kept: Kept = USUAL) -> Due:
    """What to do at this moment, `now` in seconds since the epoch, with the branch at `tip`.

    One of a kind in each of its periods in which the mind has changed; after a down time one, not many. When the clock
    is set back, nothing is made again of what is there, and what was made ahead of it counts as the newest."""
    make, prune = list[Snapshot](), list[Snapshot]()
    for kind in SCHEDULED:
        keep = max(0, _kept(kind, kept))
        there = _in_order(each for each in existing if each.kind is kind)
        present = _period(kind, timestamp(now))
        current = [each for each in there if _period(kind, each.at) == present]
        if keep and not current and (not there or there[-1].commit != tip):
            made = snapshot_of(kind, timestamp(now), tip)
            make.append(made)
            current, there = [made], _in_order([*there, made])
        others = [each for each in there if each not in current]
        prune += others[: max(0, len(there) - keep)]
    for kind in set(SnapshotKind) - set(SCHEDULED):
        there = _in_order(each for each in existing if each.kind is kind)
        prune += there[: max(0, len(there) - KEEP_OTHERS)]
    return Due(tuple(make), tuple(prune))


def beside_a_change(
    existing: Sequence[Snapshot], kind: SnapshotKind, tip: str, now: float, about: str
) -> Snapshot | None:
    """One before a self-modification, or after a failure; None when the last of the kind holds the same mind."""
    there = _in_order(each for each in existing if each.kind is kind)
    if there and there[-1].commit == tip:
        return None
    made = snapshot_of(kind, timestamp(now), tip, about)
    return None if any(each.name == made.name for each in there) else made


def _kept(kind: SnapshotKind, kept: Kept) -> int:
    return {
        SnapshotKind.DAILY: kept.daily,
        SnapshotKind.WEEKLY: kept.weekly,
        SnapshotKind.MONTHLY: kept.monthly,
    }[kind]


def _in_order(found: Iterable[Snapshot]) -> list[Snapshot]:
    return sorted(found, key=lambda each: (each.at, each.name))


def _period(kind: SnapshotKind, at: str) -> tuple[int, ...]:
    """The UTC day, the ISO week or the month; of a moment that no calendar knows, its own."""
    try:
        day = datetime.fromisoformat(f"{at[:19]}+00:00").astimezone(UTC).date()
    except ValueError:
        return ()
    match kind:
        case SnapshotKind.DAILY:
            return day.year, day.month, day.day
        case SnapshotKind.WEEKLY:
            return tuple(day.isocalendar()[:2])
        case _:
            return day.year, day.month


def make(git: Git, wanted: Sequence[Snapshot], now: float) -> None:
    """On the disk when this returns. Raises GitError, OSError."""
    if wanted:
        update_refs(git, *(_create(git, each, now) for each in wanted))


def prune(git: Git, over: Sequence[Snapshot]) -> None:
    """By itself: where git may not replace packed-refs, as in the container, a packed tag stays. Raises GitError,
    OSError."""
    if over:
        update_refs(git, *_deletions(over))


def _create(git: Git, snapshot: Snapshot, now: float) -> str:
    tag = git("hash-object", "-t", "tag", "-w", "--stdin", stdin=tag_content(snapshot, now))
    return f"create {snapshot.ref} {tag}"


def _deletions(snapshots: Iterable[Snapshot]) -> Iterator[str]:
    for each in snapshots:
        yield f"delete {each.ref} {each.tag}".rstrip()
