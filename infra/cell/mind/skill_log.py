"""What is told of skills in the events, and read there."""

from __future__ import annotations

from collections.abc import Iterator

from infra.cell.mind.event_writer import EventWriter
from infra.cell.mind.mind import MindContext
from infra.shared.clock import timestamp
from infra.shared.conversation import EXPLORATION, MAINTENANCE
from infra.shared.mind.event import EventContext, EventLine, EventMetadata, EventType, Execution, MindEvent, Outcomes
from infra.shared.mind.event_log import logged
from infra.shared.mind.skill_record import (
    COMPARISON,
    DRAFTED,
    MOVED,
    DraftDetails,
    MoveDetails,
    SkillRecords,
    TrialDetails,
    records_of,
)
from infra.shared.mind.skills import Skill
from infra.shared.safe_files import Below


class SkillLog:
    """Of one mind. What writes raises OSError."""

    def __init__(self, context: MindContext) -> None:
        self._context = context
        self._writer = EventWriter(context.places.mind, context.note)

    def records(self) -> SkillRecords:
        return records_of(self.events())

    def events(self, since: str = "") -> Iterator[EventLine]:
        """In the order of days; from this day on, if given."""
        try:
            yield from logged(Below(self._context.places.mind), since)
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
        at, about = timestamp(self._context.now()), EventContext(intent=words)
        self._writer.append(MindEvent(at, type, about, Execution(), Outcomes(observations=words), metadata))
