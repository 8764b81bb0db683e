"""What may go when room is short, or when there is more than anybody needs: a pure choice.

Nothing that is nowhere else is ever chosen: a clone with work of its own stays, however old, and the PM is told of it.
Ages are by wall time, as files have no other; a clock that is wrong can only remove too early what can be had again."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from infra.keep.limits.values import Bounds
from infra.shared.branches import MAIN

DAY = 86_400.0
QUIET_SECONDS = DAY
"""A clone that was touched since may be in work, though it holds nothing of its own yet."""
ASIDES = 5
ASIDE_SECONDS = 14 * DAY
RESCUES = 50
RESCUE_SECONDS = 90 * DAY


class Kind(Enum):
    CLONE = "clone"
    ASIDE = "clone that was set aside"
    LEFTOVER = "rest of a removal"
    LOG = "old log"
    CACHE = "cache"
    RESCUE = "rescue branch"


class Clone(NamedTuple):
    branch: str
    changed: float
    merged: bool
    """Main has its commit."""
    stays: str
    """What it holds that is nowhere else, or why that cannot be seen; empty for nothing."""


class Thing(NamedTuple):
    """Something in the agent's directory that is not a branch's clone."""

    kind: Kind
    name: str
    """Below that directory."""
    changed: float
    stays: str = ""


class Rescue(NamedTuple):
    name: str
    commit: str
    made: float
    elsewhere: bool
    """A branch that is no rescue has the commit too."""


class Found(NamedTuple):
    running: str
    """The branch that leads; empty for none."""
    short: bool
    """Room is short: what can be had again goes before it is too many."""
    clones: tuple[Clone, ...] = ()
    things: tuple[Thing, ...] = ()
    rescues: tuple[Rescue, ...] = ()


class Removal(NamedTuple):
    kind: Kind
    name: str
    """A branch, or a path below the agent's directory."""
    commit: str = ""
    """Of a rescue branch: for the report, and so that nothing else is deleted."""


def choose(found: Found, limits: Bounds, now: float) -> list[Removal]:
    """What to remove, what is least missed first. `now` is wall time."""
    return [
        *(Removal(thing.kind, thing.name) for thing in _things(found, now)),
        *(Removal(Kind.CLONE, clone.branch) for clone in _clones(found, limits, now)),
        *(Removal(Kind.RESCUE, rescue.name, rescue.commit) for rescue in _rescues(found, now)),
    ]


def overdue(found: Found, limits: Bounds, now: float) -> list[str]:
    """What is more than there should be and stays all the same, and why, in words for the PM; oldest first."""
    words = []
    if len(found.clones) - len(_clones(found, limits, now)) > limits.branch_dirs:
        old = sorted(found.clones, key=lambda clone: clone.changed)
        words += [f"the clone of {clone.branch}: {clone.stays}" for clone in old if clone.stays]
    asides = sorted(_of(found, Kind.ASIDE), key=lambda thing: thing.changed)
    beyond = asides[: max(0, len(asides) - ASIDES)]
    return words + [f"{thing.name}: {thing.stays}" for thing in beyond if thing.stays]


def _of(found: Found, kind: Kind) -> list[Thing]:
    return [thing for thing in found.things if thing.kind is kind]


def _things(found: Found, now: float) -> list[Thing]:
    chosen = _of(found, Kind.LEFTOVER)
    if found.short:
        chosen += _of(found, Kind.CACHE)
        chosen += [log for log in _of(found, Kind.LOG) if now - log.changed >= QUIET_SECONDS]
    asides = sorted(_of(found, Kind.ASIDE), key=lambda thing: thing.changed, reverse=True)
    spared, age = (0, QUIET_SECONDS) if found.short else (ASIDES, ASIDE_SECONDS)
    chosen += [aside for aside in asides[spared:] if now - aside.changed >= age]
    return [thing for thing in chosen if not thing.stays]


def _clones(found: Found, limits: Bounds, now: float) -> list[Clone]:
    """Those over the count, merged ones first, then the oldest; when room is short, every merged one."""
    free = [
        clone
        for clone in found.clones
        if clone.branch not in (MAIN, found.running) and not clone.stays and now - clone.changed >= QUIET_SECONDS
    ]
    free.sort(key=lambda clone: (not clone.merged, clone.changed))
    over = max(0, len(found.clones) - limits.branch_dirs)
    merged = sum(clone.merged for clone in free) if found.short else 0
    return free[: max(over, merged)]


def _rescues(found: Found, now: float) -> list[Rescue]:
    """Those over the count that are old as well; first what another branch has too."""
    old = [rescue for rescue in found.rescues if now - rescue.made >= RESCUE_SECONDS]
    old.sort(key=lambda rescue: (not rescue.elsewhere, rescue.made))
    return old[: max(0, len(found.rescues) - RESCUES)]
