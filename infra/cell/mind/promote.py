"""What of the notes becomes long-term memory, and what a belief: by thresholds alone. Pure; done again, it
promotes nothing new."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from infra.cell.mind.history import NoteTold, Promoted
from infra.cell.mind.memory import PATHS, Fact, Facts, Kind, Source
from infra.cell.mind.notes import Origin, details_of, origin_of
from infra.cell.mind.statements import key_of
from infra.cell.mind.thresholds import Thresholds
from infra.cell.protocol.operations import OK
from infra.shared.clock import timestamp

PROMOTIONS: Final = ("item", "belief")
BELIEF_VALIDATIONS: Final = 2
"""Of different sources, make a belief."""
MOST_EVIDENCE: Final = 8
"""Named in a fact: the first ones."""
MOST_CONFIDENCE: Final = 0.95
replace = msgspec.structs.replace


class Noted(NamedTuple):
    """A statement of a run, and whose word it is."""

    subject: str
    statement: str
    origin: Origin
    run: str
    step: str
    place: str
    """`logs/events/2026-01-31.jsonl:17`."""
    at: str
    seq: int
    source: str
    """Two notes of one source are no independent evidence: those of one run, and what one directive says to each run
    that works on it."""

    @property
    def key(self) -> str:
        return key_of(self.subject, self.statement)

    @property
    def validates(self) -> bool:
        return self.origin in ("check", "directive")


class Learnt(NamedTuple):
    """What a pass makes of the notes."""

    facts: Facts
    told: tuple[Promoted, ...] = ()
    """What became of them."""
    refused: Mapping[str, str] = {}
    """Why a statement is not promoted, at least not now; by its key."""


class _Group(NamedTuple):
    """Notes of one statement, in the order of events."""

    noted: tuple[Noted, ...]

    @property
    def counting(self) -> tuple[Noted, ...]:
        """A page may have put its words into anybody's mouth: then only what is validated counts."""
        has_page = any(each.origin == "page" for each in self.noted)
        return tuple(each for each in self.noted if each.validates or (each.origin == "act" and not has_page))

    @property
    def independent(self) -> int:
        return len({each.source for each in self.counting})

    @property
    def validations(self) -> int:
        return len({each.source for each in self.noted if each.validates})

    @property
    def validated_at(self) -> str:
        """Empty for never."""
        return max((each.at for each in self.noted if each.validates), default="")

    def becomes(self, settings: Thresholds) -> str:
        """The letter of its id; empty for nothing."""
        if self.validations >= BELIEF_VALIDATIONS or self.independent >= settings.belief_runs:
            return "B"
        return "L" if self.validations or self.independent >= settings.independent_runs else ""

    def why_not(self, settings: Thresholds) -> str:
        origins = {each.origin for each in self.noted}
        if "page" in origins:
            return "a page says it: a candidate until the PM's word or a check of a run that has read no page"
        if origins == {"recall"}:
            return "it was recalled, not found out"
        return f"noted by {self.independent} of {settings.independent_runs} runs, and not validated"


def noted_in(notes: Collection[NoteTold], facts: Facts, said_by: Callable[[str], str]) -> tuple[Noted, ...]:
    """`said_by` gives the id of the directive or task that has these words."""
    found = dict[tuple[str, str, str], Noted]()
    ids = dict[str, list[str]]()
    for fact in facts.every:
        ids.setdefault(fact.key, []).append(f"{PATHS[fact.id[0]]}#{fact.id}")
    for event, place, tainted, shown in notes:
        details = details_of(event.metadata.details)
        if details is None or details.failed or event.metadata.status not in ("", OK):
            continue
        key = key_of(details.subject, details.statement)
        was_shown = key in shown or not shown.isdisjoint(ids.get(key, ()))
        said = said_by(details.quote) if details.quote and not tainted else ""
        origin = origin_of(details, tainted, was_shown, said)
        source = said if origin == "directive" else event.run_id
        of_it = (details.subject, details.statement, origin, event.run_id, event.step_id, place, event.timestamp)
        found.setdefault((event.run_id, key, origin), Noted(*of_it, event.seq, source))
    return tuple(found.values())


def promote(
    noted: Sequence[Noted], facts: Facts, told: Sequence[tuple[str, Promoted]], settings: Thresholds, now: float
) -> Learnt:
    """`told`: what learning did before, with its times."""
    grouped, today = dict[str, list[Noted]](), timestamp(now)[:10]
    for each in noted:
        grouped.setdefault(each.key, []).append(each)
    room = settings.promotions_per_day - sum(each.what in PROMOTIONS and at[:10] == today for at, each in told)
    used, last = [each.id for _, each in told], {(each.what, each.key): each.seq for _, each in told}
    refused, new = dict[str, str](), list[Promoted]()
    groups = [_Group(tuple(group)) for group in grouped.values()]
    # What is best borne out comes first, then what has waited longest.
    for group in sorted(groups, key=lambda each: (-each.validations, -each.independent, each.noted[0].seq)):
        key = group.noted[0].key
        held = {each.id[0]: each for each in facts.every if each.key == key}
        for fact in held.values():
            if group.validated_at > fact.last_validated:  # what nothing contradicts any more is contested no more
                status = fact.status if fact.status == "deprecated" or fact.contradictions else "active"
                facts = facts.with_fact(replace(fact, last_validated=group.validated_at, status=status))
                new.append(Promoted("validated", key, fact.id))
        # What the PM took out comes back by later notes alone.
        gone = max(last.get(("belief", key), 0), 0 if "L" in held else last.get(("item", key), 0))
        fresh = _Group(tuple(each for each in group.noted if each.seq > gone))
        letter = fresh.becomes(settings)
        if "B" in held or letter in held or not (fresh.noted or held):
            continue
        if not letter:
            refused |= {} if held else {key: group.why_not(settings)}
        elif room <= 0:
            refused[key] = f"{settings.promotions_per_day} were promoted today; considered tomorrow"
        else:
            try:
                fact = _fact(facts.next_id(letter, used), fresh, today)
                facts = facts.with_fact(fact)
            except ValueError as error:
                refused[key] = f"it cannot be written: {error}"
                continue
            room -= 1
            new.append(Promoted("belief" if letter == "B" else "item", key, fact.id, group.noted[-1].seq))
    return Learnt(facts, tuple(new), refused)


def _fact(id: str, group: _Group, today: str) -> Fact:
    """Raises ValueError."""
    first, origins = group.counting[0], {each.origin for each in group.counting}
    kind: Kind = "observed" if "check" in origins else "external" if "directive" in origins else "inferred"
    # Validating ones first: they carry it.
    evidence = sorted(group.counting, key=lambda each: (not each.validates, each.seq))[:MOST_EVIDENCE]
    return Fact(
        id=id,
        claim=first.statement,
        subject=first.subject,
        confidence=round(min(MOST_CONFIDENCE, 0.4 + 0.1 * group.independent + 0.15 * group.validations), 2),
        type=kind,
        provenance=tuple(
            Source(f"event {each.place}", f"{each.origin}, run {each.run} step {each.step}") for each in evidence
        ),
        added=today,
        last_validated=group.validated_at,
    )
