"""Whether a version may count as good: from what the watcher itself saw of its boots, probes and hops.

Pure over frozen values; a version is a commit. One that was good stays so, whatever befalls it later: that may be the
world's fault, and there may be nothing better to go back to. What is done with a good one is decided elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

PROBATION_SECONDS = 600.0
FLIP_FLOP_SECONDS = 600.0
FLIP_FLOP_HOPS = 3
"""More between the same two commits in that time, with nothing new on main, lead nowhere."""


class Served(NamedTuple):
    """One boot that was seen to say SUCCESS; moments are on the monotonic clock."""

    commit: str
    since: float
    """Of SUCCESS."""
    until: float | None = None
    """Its end; None while it serves."""
    died: bool = False
    """It ended without a signal of its own, and nobody had asked it to."""
    probes: int = 0
    """Answered well."""
    unwell: float | None = None
    """When it first did not answer a probe well."""


class Hop(NamedTuple):
    """The runner of one commit was followed by that of another."""

    at: float
    before: str
    after: str
    main: str
    """Where main was then."""


class Standing(Enum):
    """What is known of a version."""

    ON_PROBATION = "on probation"
    GOOD = "good"
    BAD = "bad"
    """After SUCCESS it died or was not well, and it never was good."""


def standing(commit: str, boots: Sequence[Served], now: float, seconds: float = PROBATION_SECONDS) -> Standing:
    """Of what `boots` tell of `commit`: once good, it stays so for as long as the boot that shows it is remembered."""
    mine = [boot for boot in boots if boot.commit == commit]
    if any(has_proved_itself(boot, now, seconds) for boot in mine):
        return Standing.GOOD
    if any(boot.died or boot.unwell is not None for boot in mine):
        return Standing.BAD
    return Standing.ON_PROBATION


def has_proved_itself(boot: Served, now: float, seconds: float = PROBATION_SECONDS) -> bool:
    """In one piece: what several boots served does not add up, or a version that keeps dying would gather it."""
    ends = [moment for moment in (boot.until, boot.unwell) if moment is not None]
    return boot.probes > 0 and min([now, *ends]) - boot.since >= seconds


def last_good(boots: Sequence[Served], now: float, seconds: float = PROBATION_SECONDS) -> str:
    """The commit that proved itself last; empty when none did."""
    proved = [boot for boot in boots if has_proved_itself(boot, now, seconds)]
    return max(proved, key=lambda boot: boot.since).commit if proved else ""


def flip_flops(hops: Sequence[Hop], now: float) -> frozenset[str]:
    """Commits that only take turns: more than `FLIP_FLOP_HOPS` hops between two of them in `FLIP_FLOP_SECONDS`.

    All while main stood where it did at the last hop: one that moves is progress, and the count begins anew. `hops`:
    oldest first."""
    recent = [hop for hop in hops if now - FLIP_FLOP_SECONDS <= hop.at <= now and hop.before != hop.after]
    pairs = Counter(frozenset((hop.before, hop.after)) for hop in recent if hop.main == recent[-1].main)
    return frozenset[str]().union(*(pair for pair, count in pairs.items() if count > FLIP_FLOP_HOPS))
