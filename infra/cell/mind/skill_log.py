"""What is told of skills in the events, and read there."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

from infra.cell.mind.event import EventContext, EventLine, EventMetadata, EventType, Execution, MindEvent, Outcomes
from infra.cell.mind.event_writer import EventWriter
from infra.cell.mind.mind import MindContext
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
from infra.cell.mind.vouched_events import VouchedEvents
from infra.shared.clock import timestamp
from infra.shared.labels import EXPLORATION, MAINTENANCE

OF_SKILLS: Final = "skills"
"""In the place of a run's name in the keep's record."""


class SkillLog:
    """Of one mind. What writes raises OSError."""

    def __init__(self, context: MindContext) -> None:
        self._context = context
        self._writer = EventWriter(context.places.mind, context.note)
        self._events = VouchedEvents(context)
        self.verify, self.verify_newest = self._events.verify, self._events.verify_newest

    def records(self) -> SkillRecords:
        return records_of(self.events())

    def events(self, since: str = "") -> Iterator[EventLine]:
        """In the order of days; from this day on, if given. Those that were verified."""
        try:
            yield from self._events.lines(since)
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
        if refused := self._writer.noted_by(functools.partial(self._context.note_head, OF_SKILLS)):
            self._context.note("mind.events_written", events=1, head_not_noted=refused)
        try:
            self._events.verify_newest()
        except OSError as error:  # then it counts from the next look on
            self._context.note("mind.events_not_verified", error=str(error))
