"""What of the observations becomes long-term memory, and what a belief: by thresholds alone. Pure.

Run twice over the same observations, it promotes nothing new."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from infra.cell.mind.claims import Belief, BeliefStatus, BeliefType, MemoryItem, Origin, Source
from infra.cell.mind.observe import Noted
from infra.cell.mind.promoted import PromotionLine, PromotionLog, What
from infra.cell.mind.statements import key_of
from infra.cell.mind.thresholds import Thresholds
from infra.shared.clock import timestamp

BELIEF_VALIDATIONS: Final = 2
"""Of different sources, make a belief."""
MOST_EVIDENCE: Final = 8
"""Named in an item or a belief: the first ones."""
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.1, 0.95


class Validation(NamedTuple):
    """An item or a belief was borne out anew."""

    id: str
    at: str
    """Timestamp of the event."""


class Refusal(NamedTuple):
    """A statement that is not promoted, at least not now."""

    key: str
    subject: str
    statement: str
    why: str
    lines: tuple[str, ...]
    """Of its events."""


class Promotions(NamedTuple):
    """What to do. Items and beliefs have no id yet."""

    seen: int
    """Statements that were looked at."""
    items: tuple[MemoryItem, ...] = ()
    beliefs: tuple[Belief, ...] = ()
    validations: tuple[Validation, ...] = ()
    refused: tuple[Refusal, ...] = ()

    @property
    def promoted(self) -> int:
        return len(self.items) + len(self.beliefs)

    def about(self, keys: Collection[str]) -> Promotions:
        """With only these statements seen and refused."""
        refused = tuple(each for each in self.refused if each.key in keys)
        return self._replace(seen=len(keys), refused=refused)


class _Group(NamedTuple):
    """All that was noted of one statement."""

    key: str
    noted: tuple[Noted, ...]
    """In the order of events."""

    def after(self, seq: int) -> _Group:
        return self._replace(noted=tuple(each for each in self.noted if each.seq > seq))

    @property
    def counting(self) -> tuple[Noted, ...]:
        """A page may have put its words into anybody's mouth: then only what is validated counts."""
        has_page = any(each.origin is Origin.PAGE for each in self.noted)
        return tuple(each for each in self.noted if each.validates or (each.origin is Origin.ACT and not has_page))

    @property
    def independent(self) -> int:
        return len({each.source for each in self.counting})

    @property
    def validations(self) -> int:
        return len({each.source for each in self.noted if each.validates})

    @property
    def validated_at(self) -> str:
        """Empty for never."""
        return max((each.observation.at for each in self.noted if each.validates), default="")

    def is_item(self, settings: Thresholds) -> bool:
        return self.validations >= 1 or self.independent >= settings.independent_runs

    def is_belief(self, settings: Thresholds) -> bool:
        return self.validations >= BELIEF_VALIDATIONS or self.independent >= settings.belief_runs

    def why_not(self, settings: Thresholds) -> str:
        origins = {each.origin for each in self.noted}
        if Origin.PAGE in origins:
            return "a page says it: a candidate until the PM's word or a check of a run that has read no page"
        if origins == {Origin.RECALL}:
            return "it was recalled, not found out"
        return f"noted by {self.independent} of {settings.independent_runs} runs, and not validated"


def promote(
    noted: Iterable[Noted],
    items: Sequence[MemoryItem],
    beliefs: Sequence[Belief],
    settings: Thresholds,
    log: PromotionLog,
    now: float,
    commit: str = "",
) -> Promotions:
    """`log`: what was promoted before; `commit`: of the mind as it stands."""
    groups = _grouped(noted)
    item_of = {key_of(item.subject, item.statement): item for item in items}
    belief_of = {key_of(belief.subject, belief.claim): belief for belief in beliefs}
    room = max(0, settings.promotions_per_day - log.on(timestamp(now)[:10]))
    made_items, made_beliefs = list[MemoryItem](), list[Belief]()
    validations, refused = list[Validation](), list[Refusal]()
    for group in sorted(groups, key=_urgency):
        item, belief = item_of.get(group.key), belief_of.get(group.key)
        validations += _validations(group, item, belief)
        if belief is not None:
            continue
        was_belief = log.last_seq("belief", group.key)
        taken_out = max(was_belief, log.last_seq("item", group.key))
        for_item = group.after(taken_out)
        for_belief = group.after(was_belief) if item else for_item
        if not for_item.noted and item is None:
            continue  # all of it was considered, and what came of it was taken out
        wants_belief, wants_item = for_belief.is_belief(settings), item is None and for_item.is_item(settings)
        if not wants_belief and not wants_item:
            if item is None:
                refused.append(_refusal(group, group.why_not(settings)))
        elif len(made_items) + len(made_beliefs) >= room:
            why = f"{settings.promotions_per_day} were promoted today; considered tomorrow"
            refused.append(_refusal(group, why))
        elif wants_belief:
            made_beliefs.append(_belief(for_belief, commit))
        else:
            made_items.append(_item(for_item, now))
    return Promotions(len(groups), tuple(made_items), tuple(made_beliefs), tuple(validations), tuple(refused))


def line_of(what: What, key: str, id: str, noted: Iterable[Noted], now: float) -> PromotionLine:
    """For the log: of a change that was made."""
    last = max((each.seq for each in noted if each.key == key), default=0)
    return PromotionLine(timestamp(now), what, key, id, last)


def confidence(independent: int, validations: int) -> float:
    """From 0.5 for one that says so, to MOST_CONFIDENCE."""
    return round(min(MOST_CONFIDENCE, 0.4 + 0.1 * independent + 0.15 * validations), 2)


def _grouped(noted: Iterable[Noted]) -> list[_Group]:
    found = dict[str, list[Noted]]()
    for each in noted:
        found.setdefault(each.key, []).append(each)
    return [_Group(key, tuple(sorted(group, key=lambda one: one.seq))) for key, group in found.items()]


def _urgency(group: _Group) -> tuple[int, int, int]:
    """What is best borne out comes first, then what has waited longest."""
    return -group.validations, -group.independent, group.noted[0].seq


def _validations(group: _Group, item: MemoryItem | None, belief: Belief | None) -> list[Validation]:
    at = group.validated_at
    held = [each for each in (item, belief) if each is not None]
    return [Validation(each.id, at) for each in held if at[:10] > each.last_validated[:10]]


def _evidenced(group: _Group) -> tuple[Noted, ...]:
    """Validating ones first: they carry it."""
    return tuple(sorted(group.counting, key=lambda each: (not each.validates, each.seq))[:MOST_EVIDENCE])


def _item(group: _Group, now: float) -> MemoryItem:
    first = group.counting[0].observation
    evidence = tuple(each.observation.evidence for each in _evidenced(group))
    return MemoryItem("", first.subject, first.statement, evidence, timestamp(now)[:10], group.validated_at[:10])


def _belief(group: _Group, commit: str) -> Belief:
    first, origins = group.counting[0].observation, {each.origin for each in group.counting}
    kind = BeliefType.INFERRED
    if Origin.CHECK in origins:
        kind = BeliefType.OBSERVED
    elif Origin.DIRECTIVE in origins:
        kind = BeliefType.EXTERNAL
    found = (each.observation.evidence for each in _evidenced(group))
    sources = [Source(f"event {each.line}", f"run {each.run} step {each.step}") for each in found]
    if commit:
        sources.append(Source(f"commit {commit}", "the mind as it stood"))
    return Belief(
        id="",
        claim=first.statement,
        confidence=confidence(group.independent, group.validations),
        status=BeliefStatus.ACTIVE,
        type=kind,
        provenance=tuple(sources),
        last_validated=group.validated_at[:10],
        subject=first.subject,
    )


def _refusal(group: _Group, why: str) -> Refusal:
    first = group.noted[0].observation
    lines = tuple(each.observation.evidence.line for each in group.noted[:MOST_EVIDENCE])
    return Refusal(group.key, first.subject, first.statement, why, lines)
