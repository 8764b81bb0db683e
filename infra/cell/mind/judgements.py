"""Statements of memory about one thing that may not both be so: which pairs are to be judged, and what follows from a
judgement. Pure.

The one that was validated last wins, not the one that was written last."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import combinations
from typing import Final, NamedTuple

from infra.cell.mind.claims import Belief, BeliefStatus, MemoryItem
from infra.cell.mind.promote import LEAST_CONFIDENCE
from infra.cell.mind.promoted import pair_key
from infra.cell.mind.statements import key_of, normalised, words_of

LOWERED: Final = 0.2
"""A belief loses so much of its confidence when it is contested and nothing decides."""
MOST_HELD, MOST_PAIRS = 20_000, 500
LEAST_OVERLAP: Final = 0.6
"""Of the words of two subjects, so many in common make them one."""


MOST_LOOSE: Final = 200
_LOOSE = re.compile(r"[-*] ([^:]{1,80}): (.{1,400})")


class Held(NamedTuple):
    """A statement of memory: a belief, or an item of long-term memory."""

    id: str
    subject: str
    statement: str
    status: BeliefStatus
    contradictions: tuple[str, ...]
    validated_at: str
    """A date or a timestamp; empty for never."""
    confidence: float | None = None
    """Of a belief."""

    @property
    def key(self) -> str:
        return key_of(self.subject, self.statement)


class PairVerdict(Enum):
    """Of a pair, by the model."""

    CONTRADICT = "contradict"
    COMPATIBLE = "compatible"
    CONDITIONS = "conditions"
    """Each holds under conditions that it names."""
    UNKNOWN = "unknown"
    """There is no answer."""


class Judgement(NamedTuple):
    verdict: PairVerdict
    conditions: tuple[str, str] = ("", "")
    """Of the one and the other."""
    why: str = ""
    """There is no answer."""


class Pair(NamedTuple):
    one: Held
    other: Held

    @property
    def key(self) -> str:
        return pair_key(self.one.key, self.other.key)

    @property
    def ids(self) -> tuple[str, str]:
        return self.one.id, self.other.id


class Resolution(NamedTuple):
    """The pair as it is from now on."""

    one: Held
    other: Held
    words: str
    """For the report."""


def held_of(
    items: Iterable[MemoryItem], beliefs: Iterable[Belief], validated: Mapping[str, str] | None = None
) -> tuple[Held, ...]:
    """`validated`: by key of a statement, when an event validated it last, which is finer than a file's dates."""
    known = validated or {}

    def held(each: MemoryItem | Belief, statement: str, confidence: float | None) -> Held:
        at = max(each.last_validated, known.get(key_of(each.subject, statement), ""))
        return Held(each.id, each.subject, statement, each.status, each.contradictions, at, confidence)

    every = [held(item, item.statement, None) for item in items]
    return (*every, *(held(belief, belief.claim, belief.confidence) for belief in beliefs))[:MOST_HELD]


def candidates(
    held: Sequence[Held], compatible: Collection[str] = (), ids: Collection[str] | None = None
) -> list[Pair]:
    """Pairs about one subject that say different things, those that were judged to be compatible left out; with `ids`,
    only pairs with one of them. Of what is deprecated none, but what was validated again since."""
    found = list[Pair]()
    for group in _about_one_thing(held):
        for one, other in combinations(group, 2):
            pair = Pair(one, other)
            if ids is not None and one.id not in ids and other.id not in ids:
                continue
            if one.key == other.key or pair.key in compatible or not _is_open(one, other):
                continue
            found.append(pair)
            if len(found) == MOST_PAIRS:
                return found
    return found


class Loose(NamedTuple):
    """A statement that is no memory: of working memory, or noted and not promoted."""

    where: str
    subject: str
    statement: str


def loose_lines(where: str, text: str) -> Iterator[Loose]:
    """Lines of the form `- subject: statement`."""
    for line in text.splitlines()[:MOST_LOOSE]:
        found = _LOOSE.fullmatch(line.strip())
        if found:
            yield Loose(where, found[1], found[2])


def against_memory(held: Sequence[Held], loose: Iterable[Loose]) -> list[tuple[Loose, Held]]:
    """What says something else than memory about the same subject. It is told, and changes nothing: it may become
    memory by the way that all takes, and is judged then."""
    by_subject = dict[str, list[Held]]()
    for each in held:
        if each.status is not BeliefStatus.DEPRECATED:
            by_subject.setdefault(normalised(each.subject), []).append(each)
    found = list[tuple[Loose, Held]]()
    for one in loose:
        same = by_subject.get(normalised(one.subject), [])
        if key_of(one.subject, one.statement) not in {each.key for each in same}:
            found += [(one, each) for each in same]
    return found[:MOST_LOOSE]


def _is_open(one: Held, other: Held) -> bool:
    deprecated = [each for each in (one, other) if each.status is BeliefStatus.DEPRECATED]
    if len(deprecated) != 1:
        return not deprecated
    [loser] = deprecated
    winner = other if loser is one else one
    return winner.id in loser.contradictions and loser.validated_at > winner.validated_at


def is_decided(pair: Pair) -> bool:
    """They are known to contradict each other: nobody is asked again."""
    return BeliefStatus.DEPRECATED in (pair.one.status, pair.other.status)


def resolved(pair: Pair, judgement: Judgement) -> Resolution:
    """What becomes of the two. The same again changes nothing more."""
    one, other = pair
    match judgement.verdict:
        case PairVerdict.COMPATIBLE:
            return Resolution(_cleared(one, other), _cleared(other, one), "compatible: both stay")
        case PairVerdict.CONDITIONS:
            first, second = judgement.conditions
            words = "split into conditions, under which each holds"
            return Resolution(_under(_cleared(one, other), first), _under(_cleared(other, one), second), words)
        case PairVerdict.UNKNOWN:
            words = f"contested: nobody could judge ({judgement.why})" if judgement.why else "contested"
            return Resolution(_against(one, other), _against(other, one), words)
    if one.validated_at != other.validated_at:
        winner, loser = (one, other) if one.validated_at > other.validated_at else (other, one)
        words = f"{winner.id} was validated last ({winner.validated_at[:10]}): {loser.id} is deprecated"
        winner, loser = _winning(winner, loser), _losing(loser, winner)
        return Resolution(*((winner, loser) if winner.id == one.id else (loser, winner)), words)
    words = "contested: neither is validated; validate one of them"
    if one.validated_at:
        words = f"contested: both were validated at {one.validated_at}; validate one of them again"
        return Resolution(_against(one, other), _against(other, one), words)
    return Resolution(_doubted(one, other), _doubted(other, one), words)


def _against(held: Held, other: Held) -> Held:
    return held._replace(status=BeliefStatus.CONTESTED, contradictions=_with(held, other))


def _doubted(held: Held, other: Held) -> Held:
    """Its confidence is lowered once for each that contradicts it."""
    known = held.status is BeliefStatus.CONTESTED and other.id in held.contradictions
    if held.confidence is None or known:
        return _against(held, other)
    lowered = round(max(LEAST_CONFIDENCE, held.confidence - LOWERED), 2)
    return _against(held, other)._replace(confidence=min(held.confidence, lowered))


def _winning(held: Held, loser: Held) -> Held:
    return _cleared(held, loser)


def _losing(held: Held, winner: Held) -> Held:
    return held._replace(status=BeliefStatus.DEPRECATED, contradictions=_with(held, winner))


def _cleared(held: Held, other: Held) -> Held:
    """Without the other in its way; contested goes on by those that are left."""
    left = tuple(id for id in held.contradictions if id != other.id)
    return held._replace(status=BeliefStatus.CONTESTED if left else BeliefStatus.ACTIVE, contradictions=left)


def _under(held: Held, condition: str) -> Held:
    """Says it under the condition."""
    if not condition or held.statement.startswith(condition):
        return held
    return held._replace(statement=f"{condition}: {held.statement}")


def _with(held: Held, other: Held) -> tuple[str, ...]:
    return (*held.contradictions, *(() if other.id in held.contradictions else (other.id,)))


def _about_one_thing(held: Sequence[Held]) -> list[list[Held]]:
    """By the same subject, or by subjects that share most of their words; each pair is in one group only."""
    by_subject = dict[str, list[Held]]()
    for each in held:
        by_subject.setdefault(normalised(each.subject), []).append(each)
    by_subject.pop("", None)
    groups = list(by_subject.values())
    by_word = dict[str, list[str]]()
    words = {subject: frozenset(words_of(subject)) for subject in by_subject}
    for subject, each_words in words.items():
        for word in each_words:
            by_word.setdefault(word, []).append(subject)
    pairs = {pair for subjects in by_word.values() if len(subjects) <= 50 for pair in combinations(subjects, 2)}
    for one, other in sorted(pairs):
        both = words[one] & words[other]
        if len(both) / len(words[one] | words[other]) >= LEAST_OVERLAP:
            groups += [[first, second] for first in by_subject[one] for second in by_subject[other]]
    return groups
