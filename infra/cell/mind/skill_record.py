"""What the events say of each skill: in which runs it was used and how they ended, and how its trials went. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from infra.cell.mind.semver import Dependency
from infra.cell.run_states import StopReason
from infra.shared.mind.event import EventLine, MindEvent

SELF_TEST, REGRESSION = "skill_self_test", "skill_regression"
REVIEW, COMPARISON = "skill_review", "skill_comparison"
"""Of the last there are several, each with the skill or without it."""
TRIALS: Final = (SELF_TEST, REGRESSION, REVIEW, COMPARISON)
"""In an event's `metadata.tool`."""
MOVED: Final = "skill_moved"
"""The same, of a skill that came into another state; its `details` are a MoveDetails."""
RECENT_USES: Final = 20
"""Failures are counted among so many last uses: an old and busy skill is not disabled for what is long past."""
DRAFTED: Final = "skill_drafted"
"""The same, of a candidate that was written or changed; a DraftDetails."""
SUCCEEDED: Final = frozenset((StopReason.COMPLETED.value,))
FAILED: Final = frozenset(
    reason.value
    for reason in (
        *(StopReason.MAX_STEPS, StopReason.MAX_WALL_TIME, StopReason.MAX_FAILURES, StopReason.NO_OP_LOOP),
        *(StopReason.POLICY_DENIED, StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.INVALID_REPLIES),
    )
) | {"failed"}
"""What any other end says, has nothing to do with the work."""


_D = TypeVar("_D")


class TrialDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """`metadata.details` of the event of a trial."""

    skill: str
    """`candidates/csv-sum@0.1.0`."""
    hash: str
    """Of the folder that was tried (`skills.folder_hash`)."""
    passed: bool
    words: str = ""
    """What was seen."""
    facts: dict[str, Any] = {}

    def plain(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class MoveDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    skill: str
    """Where it was."""
    to: str
    """Where it is: `failed/csv-sum@0.1.0`."""
    hash: str = ""
    why: str = ""

    def plain(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class DraftDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    skill: str
    """The name alone: what a page had a hand in, stays so in the versions after it."""
    hash: str
    origins: tuple[str, ...] = ()
    """Sites whose text the work had read."""

    def plain(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class SkillUse(NamedTuple):
    """A skill in one run."""

    run: str
    place: str
    """`logs/events/2026-01-31.jsonl:17`: the first event of the run that the skill triggered."""
    at: str
    seq: int
    succeeded: bool | None
    """None while the run goes on, or when it ended for a reason that has nothing to do with its work."""


class SkillTrial(NamedTuple):
    kind: str
    """One of TRIALS."""
    hash: str
    passed: bool
    words: str
    place: str
    seq: int
    facts: Mapping[str, Any] = MappingProxyType({})


class SkillRecord(NamedTuple):
    uses: tuple[SkillUse, ...] = ()
    trials: tuple[SkillTrial, ...] = ()
    origins: tuple[str, ...] = ()
    """Sites that work had read which wrote it, in this version or one before."""

    @property
    def successes(self) -> tuple[SkillUse, ...]:
        return tuple(use for use in self.uses if use.succeeded)

    @property
    def failures(self) -> tuple[SkillUse, ...]:
        """Among the last uses that say something."""
        told = [use for use in self.uses if use.succeeded is not None]
        return tuple(use for use in told[-RECENT_USES:] if not use.succeeded)

    @property
    def failed_trials(self) -> tuple[SkillTrial, ...]:
        return tuple(trial for trial in self.trials if trial.kind == SELF_TEST and not trial.passed)

    def last(self, kind: str, hash: str) -> SkillTrial | None:
        """Of the folder as it is now."""
        return next((each for each in reversed(self.trials) if (each.kind, each.hash) == (kind, hash)), None)

    def since_tried(self, hash: str) -> tuple[SkillUse, ...]:
        """The uses of the folder as it is now: those since it was tried for the first time."""
        first = min((trial.seq for trial in self.trials if trial.hash == hash), default=None)
        return tuple(use for use in self.successes if first is not None and use.seq > first)

    @property
    def confidence(self) -> float:
        """That the next use succeeds, by the rule of succession."""
        told = len(self.successes) + sum(use.succeeded is False for use in self.uses)
        return (len(self.successes) + 1) / (told + 2)


class SkillRecords(NamedTuple):
    by_reference: dict[str, SkillRecord]
    drafted_from: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """The sites that work had read which wrote a candidate, by its name."""

    def of(self, reference: str) -> SkillRecord:
        name = reference.partition("/")[2].partition("@")[0]
        record = self.by_reference.get(reference, SkillRecord())
        return record._replace(origins=self.drafted_from.get(name, ()))


def records_of(lines: Iterable[EventLine]) -> SkillRecords:
    """`lines` in the order of the log. A run of exploration is no use, and a trial counts where it is told."""
    outcomes: dict[str, bool | None] = {}
    used: dict[tuple[str, str], SkillUse] = {}
    trials: dict[str, list[SkillTrial]] = {}
    origins: dict[str, tuple[str, ...]] = {}
    for line in lines:
        event = line.event
        if event is None:
            continue
        if event.event_type == "task_update" and event.run_id:
            outcomes[event.run_id] = outcome_of(event.metadata.status)
        if event.metadata.tool in TRIALS:
            details = _details(event, TrialDetails)
            if details:
                what = (event.metadata.tool, details.hash, details.passed, details.words)
                trial = SkillTrial(*what, line.place, event.seq, details.facts)
                trials.setdefault(details.skill, []).append(trial)
        elif event.metadata.tool == DRAFTED:
            if drafted := _details(event, DraftDetails):
                origins[drafted.skill] = tuple(dict.fromkeys((*origins.get(drafted.skill, ()), *drafted.origins)))
        elif (reference := used_in(event)) and (reference, event.run_id) not in used:
            used[reference, event.run_id] = SkillUse(event.run_id, line.place, event.timestamp, event.seq, None)
    records: dict[str, SkillRecord] = {
        reference: SkillRecord(trials=tuple(found)) for reference, found in trials.items()
    }
    for (reference, run), use in used.items():
        record = records.get(reference, SkillRecord())
        use = use._replace(succeeded=outcomes.get(run))
        records[reference] = record._replace(uses=(*record.uses, use))
    return SkillRecords(records, {name: sites for name, sites in origins.items() if sites})


def used_in(event: MindEvent) -> str:
    """The skill that led to this event; empty for none, for exploration, and for what is no reference."""
    reference = event.context.triggering_skill
    if not reference or not event.run_id or event.metadata.label.startswith("exploration"):
        return ""
    try:
        return str(Dependency.of(reference))
    except ValueError:
        return ""


def outcome_of(status: str) -> bool | None:
    """Whether work that ended with this word succeeded; None when the word says nothing of it."""
    return True if status in SUCCEEDED else False if status in FAILED else None


def _details(event: MindEvent, kind: type[_D]) -> _D | None:
    try:
        return msgspec.convert(event.metadata.details, kind)
    except (msgspec.ValidationError, TypeError, RecursionError):
        return None
