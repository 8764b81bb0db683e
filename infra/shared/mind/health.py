"""The health of an agent's mind, as five checks over facts. Pure.

Levels are those of `minifram doctor`: `warn` and `fail` are findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

OK, NOTE, WARN, FAIL = "ok", "note", "warn", "fail"
SELF_CHECK: Final = "logs/health/sandbox.json"
"""What the runner sees of its own sandbox; committed."""
MOST_BYTES: Final = 1 << 16
LEAST_FREE: Final = 100 << 20
STALE_TICKS: Final = 3
"""So many ticks without a look of the work loop are too many."""
MOST_NAMED: Final = 3


class HealthCheck(NamedTuple):
    name: str
    level: str
    words: str


class SandboxFacts(msgspec.Struct, frozen=True):
    """Seen from inside, by the runner."""

    at: str = ""
    contained: bool = False
    """It runs in the container's paths."""
    system: str = ""
    """`Linux`."""
    uid: int = -1
    capabilities: int = 0
    """The effective set, as bits."""
    link: str = ""
    """Where `/agent` leads; empty when it is missing."""
    root_writable: bool = False
    mind_writable: bool = False
    remote_writable: bool = False
    """The files of the repository, which only the keep may write."""
    free_bytes: int = 0


class LoggingFacts(NamedTuple):
    events: int
    last_at: str
    """Of the last event; empty without one."""
    findings: Sequence[str]
    """What is wrong with the chain, or cannot be read."""
    expected: bool = True
    """A run has ended, so there must be events."""
    days_quiet: float = 0.0
    """Since anything was promoted, while there were events; 0 when that is not so."""


class CoherenceFacts(NamedTuple):
    contradictions: int
    """Pairs that name each other."""
    contested: int
    problems: Sequence[str]
    """With the files of memory."""


class LoopFacts(NamedTuple):
    running: bool
    working: bool
    """A run is under way."""
    seconds_since_tick: float | None
    """None when it is not known."""
    tick_seconds: float


class SkillFacts(NamedTuple):
    pending: int
    learned: int
    failed: int
    deprecated: int
    problems: Sequence[str]


def sandbox(facts: SandboxFacts | None, expects_container: bool, mind: str) -> HealthCheck:
    """`mind`: where `/agent` has to lead in the container."""
    name = "sandbox"
    if facts is None:
        return HealthCheck(name, NOTE, "the runner has not looked at its sandbox yet; it does once a day")
    wrong = [] if facts.system == "Linux" else [f"the system is {facts.system or 'unknown'}, expected Linux"]
    if not facts.mind_writable:
        wrong.append("the mind cannot be written")
    if facts.free_bytes < LEAST_FREE:
        wrong.append(f"{facts.free_bytes >> 20} MiB free, expected {LEAST_FREE >> 20}")
    if expects_container:
        if not facts.contained:
            wrong.append("it does not run in the container")
        if facts.uid == 0 or facts.capabilities:
            wrong.append(f"uid {facts.uid} with capabilities {facts.capabilities:#x}, expected another uid and none")
        if facts.root_writable:
            wrong.append("the root file system can be written")
        if facts.remote_writable:
            wrong.append("the repository can be written")
        if facts.link and facts.link != mind:
            wrong.append(f"/agent leads to {facts.link}, expected {mind}")
    if wrong:
        return HealthCheck(name, FAIL, f"at {facts.at}: {'; '.join(wrong)}")
    how = "sealed" if facts.contained else "not isolated (sandbox: process)"
    return HealthCheck(name, OK, f"{how}, uid {facts.uid}, {facts.free_bytes >> 30} GiB free, seen at {facts.at}")


def logging(facts: LoggingFacts, quiet_days: int) -> HealthCheck:
    name = "logging"
    if facts.findings:
        return HealthCheck(name, FAIL, f"the record of events is not what was written: {few(facts.findings)}")
    if not facts.events:
        if facts.expected:
            return HealthCheck(name, FAIL, "runs have ended, and there is no event: their record is gone")
        return HealthCheck(name, NOTE, "no event yet")
    words = f"{facts.events:,} events, the last at {facts.last_at}"
    if facts.days_quiet >= quiet_days:
        return HealthCheck(name, WARN, f"{words}; {quiet_words(facts.days_quiet)}")
    return HealthCheck(name, OK, words)


def quiet_words(days: float) -> str:
    return f"nothing was promoted for {int(days)} days, though there were events: see 'minifram events --type note'"


def coherence(facts: CoherenceFacts) -> HealthCheck:
    words = f"{facts.contradictions} contradictions, {facts.contested} contested beliefs"
    if facts.problems:
        return HealthCheck("coherence", WARN, f"{words}; {few(facts.problems)}")
    return HealthCheck("coherence", NOTE if facts.contested else OK, words)


def task_loop(facts: LoopFacts) -> HealthCheck:
    name = "task loop"
    if not facts.running:
        return HealthCheck(name, NOTE, "the agent is not running")
    if facts.seconds_since_tick is None:
        return HealthCheck(name, NOTE, "the work loop has not looked yet")
    words = f"looked {facts.seconds_since_tick:.0f} s ago, every {facts.tick_seconds:g} s"
    late = facts.seconds_since_tick > STALE_TICKS * facts.tick_seconds
    if late and not facts.working:
        return HealthCheck(name, FAIL, f"{words}: it hangs; 'minifram logs' and 'minifram restart'")
    return HealthCheck(name, OK, f"{words}{', a run is under way' if facts.working else ''}")


def skill_system(facts: SkillFacts) -> HealthCheck:
    words = (
        f"{facts.learned} learned, {facts.pending} candidates pending, {facts.failed} failed, "
        f"{facts.deprecated} deprecated"
    )
    if facts.problems:
        return HealthCheck("skills", WARN, f"{words}; {few(facts.problems)}")
    return HealthCheck("skills", OK, words)


def days_quiet(last_promotion: float | None, first_event: float | None, last_event: float | None, now: float) -> float:
    """For how long nothing was promoted though there were events; seconds since the epoch, None for never."""
    if first_event is None or last_event is None:
        return 0.0
    since = first_event if last_promotion is None else max(last_promotion, first_event)
    return max(0.0, (now - since) / 86_400) if last_event > since else 0.0


def few(words: Sequence[str]) -> str:
    more = f"; and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return "; ".join(words[:MOST_NAMED]) + more
