"""What is told of skills in the events, and read there."""

from __future__ import annotations

from collections.abc import Iterator

from infra.cell.mind.mind import MindContext
from infra.cell.mind.outbox import outbox_of
from infra.cell.mind.skill_record import (
    COMPARISON,
    DRAFTED,
    MOVED,
    DraftDetails,
    MoveDetails,
    SkillRecords,
    TrialDetails,
    records_of,
)
from infra.cell.mind.skills import Skill
from infra.shared.labels import EXPLORATION, MAINTENANCE
from infra.shared.mind.event import (
    EventContext,
    EventLine,
    EventMetadata,
    EventType,
    Execution,
    MindEvent,
    Outcomes,
    logged,
)
from infra.shared.safe_files import Below


class SkillLog:
    """Of one mind. What writes raises OSError."""

    def __init__(self, context: MindContext) -> None:
        self._context = context

    def records(self) -> SkillRecords:
        return records_of(self.events())

    def events(self, since: str = "") -> Iterator[EventLine]:
        """In the order of days; from this day on, if given."""
        try:
            yield from logged(Below(self._context.places.events), since)
        except OSError as error:
            self._context.note("mind.events_unreadable", error=str(error))

    def drafted(self, skill: Skill, details: DraftDetails) -> None:
        metadata = EventMetadata(label=MAINTENANCE, tool=DRAFTED, status="ok", details=details.plain())
        self._tell("self_modification", f"{skill.reference} was drafted", metadata)

    def tried(self, kind: str, details: TrialDetails) -> None:
        metadata = EventMetadata(
            label=f"{EXPLORATION}/skills" if kind == COMPARISON else MAINTENANCE,
            tool=kind,
            status="ok" if details.passed else "failed",
            details=details.plain(),
            curiosity_spend=float(details.facts.get("usd", 0.0)),
        )
        self._tell("skill_execution", details.words, metadata)
        self._context.note("mind.skill_tried", skill=details.skill, trial=kind, passed=details.passed)

    def moved(self, skill: Skill, to: Skill, hash: str, why: str) -> None:
        details = MoveDetails(skill.reference, to.reference, hash, why).plain()
        self._tell("self_modification", why, EventMetadata(label=MAINTENANCE, tool=MOVED, status="ok", details=details))
        self._context.note("mind.skill_moved", skill=skill.reference, to=to.reference, why=why)

    def _tell(self, type: EventType, words: str, metadata: EventMetadata) -> None:
        outbox, about = outbox_of(self._context.places.mind), EventContext(intent=words)
        outbox.put(MindEvent(type, about, Execution(), Outcomes(observations=words), metadata))
        outbox.send(self._context.record)
