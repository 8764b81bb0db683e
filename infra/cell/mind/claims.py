"""What the mind holds to be so: observations, items of long-term memory, beliefs, and where each of them comes from."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Origin(Enum):
    """Whose word a statement is, from the events alone."""

    DIRECTIVE = "directive"
    """The PM's: a directive or a task says it."""
    CHECK = "check"
    """A command that the dispatcher ran for it ended with status 0."""
    ACT = "act"
    """The model saw it in the result of an act of its own."""
    PAGE = "page"
    """Its run had read the web. It stays a candidate until the PM's word or a check of an untainted run."""
    RECALL = "recall"
    """It was shown to the run. Never the source of a promotion."""


class Evidence(NamedTuple):
    """One event, by its line."""

    run: str
    step: str
    line: str
    """`logs/events/2026-01-31.jsonl:17`."""
    origin: Origin


class Observation(NamedTuple):
    """A statement that an event of the type `note` makes."""

    subject: str
    """What it is about, in few words; statements about one subject can contradict each other."""
    statement: str
    at: str
    evidence: Evidence


class BeliefStatus(Enum):
    ACTIVE = "active"
    CONTESTED = "contested"
    DEPRECATED = "deprecated"


class MemoryItem(NamedTuple):
    """A section of `memory/long_term.md`: `## L-000001 subject`."""

    id: str
    subject: str
    statement: str
    evidence: tuple[Evidence, ...]
    added: str
    last_validated: str = ""
    status: BeliefStatus = BeliefStatus.ACTIVE
    contradictions: tuple[str, ...] = ()
    """Ids, of items or beliefs."""


class BeliefType(Enum):
    INVARIANT_DERIVED = "invariant-derived"
    OBSERVED = "observed"
    INFERRED = "inferred"
    EXTERNAL = "external"


class Source(NamedTuple):
    """One entry of a belief's `Provenance:`."""

    source: str
    """A path of the mind, `event …jsonl:17`, or `commit <sha>`."""
    evidence: str
    """`run … step …`, or other words."""


class Belief(NamedTuple):
    """A section of `memory/beliefs.md`: `## B-000001`."""

    id: str
    claim: str
    confidence: float
    """From 0 to 1."""
    status: BeliefStatus
    type: BeliefType
    provenance: tuple[Source, ...]
    last_validated: str
    """A date, or empty."""
    contradictions: tuple[str, ...] = ()
    """Ids."""
    notes: str = ""
    subject: str = ""
    """A line `Subject:` of our own, by which statements about the same thing are found."""
