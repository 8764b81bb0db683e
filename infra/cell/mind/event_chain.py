"""Whether the files of events are what was written: each event names its number and the hash of the one before, and the
keep has noted the last of each run where no cell can reach it.

What comes behind the last noted head could be written anew as a whole; nothing before it can."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from infra.cell.mind.event import GENESIS, ChainTip, EventLine, EventProblem, as_line, hash_of, is_torn
from infra.shared.mind.heads import Head
from infra.shared.mind.layout import EVENTS
from infra.shared.requests import MAX_SEQ

MOST_FINDINGS = 50
MOST_STRETCHES = 10_000
"""Pieces of the chain that are held at once; a sound chain is one piece for each time that the clock was set back."""


class ChainLink(NamedTuple):
    """A line's place in the chain, by its own words."""

    seq: int
    previous: str
    hash: str
    path: str
    line: int


class _Stretch(NamedTuple):
    """Events that follow from each other, where they stand."""

    first: ChainLink
    last: ChainLink


def verify(lines: Iterable[EventLine], heads: Sequence[Head] = ()) -> list[EventProblem]:
    """What does not fit; nothing for a whole chain. `lines` are those of all files, each file in its own order; `heads`
    are those that stand (`heads.standing`)."""
    return _first(_findings(lines, heads))


def tip_in(lines: Sequence[bytes], most: int = MAX_SEQ) -> ChainTip | None:
    """The last of these lines that is what its hash says, and has no number over `most`."""
    for line in reversed(lines):
        found, why = link_of(EventLine("", 0, None, raw=line))
        if found and not why and found.seq <= most:
            return ChainTip(found.seq, found.hash)
    return None


def _first(findings: Iterator[EventProblem]) -> list[EventProblem]:
    found = [each for each, _ in zip(findings, range(MOST_FINDINGS + 1), strict=False)]
    if len(found) > MOST_FINDINGS:
        found[MOST_FINDINGS:] = [EventProblem(EVENTS, 0, "there is more of this; the first findings are shown")]
    return found


def _findings(lines: Iterable[EventLine], heads: Sequence[Head]) -> Iterator[EventProblem]:
    noted: dict[int, list[Head]] = {}
    for head in heads:
        noted.setdefault(head.seq, []).append(head)
    stretches: list[_Stretch] = []
    in_file: ChainLink | None = None
    for line in lines:
        found, why = link_of(line)
        if why:
            yield EventProblem(line.path, line.line, why)
        if found is None:
            continue
        if in_file and in_file.path == line.path and found.seq <= in_file.seq:
            yield _at(found, f"event {found.seq} stands behind event {in_file.seq}: the lines are in another order")
        in_file = found
        for head in noted.pop(found.seq, ()):
            if head.hash != found.hash:
                yield _at(found, f"event {found.seq} is not the one with which run {head.run} ended: it was rewritten")
        if stretches and _follows(found, stretches[-1].last):
            stretches[-1] = stretches[-1]._replace(last=found)
        elif len(stretches) < MOST_STRETCHES:
            stretches.append(_Stretch(found, found))
        else:
            yield _at(found, "the chain is in too many pieces to be checked further")
            return
    yield from _between(stretches)
    for head in (head for seq in sorted(noted) for head in noted[seq]):
        yield EventProblem(EVENTS, 0, f"event {head.seq}, with which run {head.run} ended, is missing")


def link_of(line: EventLine) -> tuple[ChainLink | None, str]:
    """Its place in the chain, and what is wrong with it: nothing where a power cut explains it."""
    if not line.raw:
        return None, line.why
    try:
        fields: Any = json.loads(line.raw)
        seq, previous, digest = fields["seq"], fields["previous"], fields["hash"]
        known = type(seq) is int and 0 < seq <= MAX_SEQ and isinstance(previous, str) and isinstance(digest, str)
        is_whole = known and as_line(fields) == line.raw + b"\n" and hash_of(fields) == digest
    except (ValueError, RecursionError):
        return None, "" if is_torn(line.raw) else line.why or "the line is no JSON"
    except (KeyError, TypeError):
        known = is_whole = False
    if not known:
        return None, line.why or "the line has no place in the chain: something else wrote it"
    link = ChainLink(seq, previous, digest, line.path, line.line)
    return link, "" if is_whole else f"event {seq} is not what its hash says: it was rewritten"


def _between(stretches: Sequence[_Stretch]) -> Iterator[EventProblem]:
    """What is wrong where one stretch ends and the next begins."""
    ordered = sorted(stretches, key=lambda each: (each.first.seq, each.last.seq))
    if ordered and ordered[0].first.seq != 1:
        yield _at(ordered[0].first, f"the events before {ordered[0].first.seq} are missing: there is no line of them")
    elif ordered and ordered[0].first.previous != GENESIS:
        yield _at(ordered[0].first, "the first event names another before it")
    for one, other in pairwise(ordered):
        if _follows(other.first, one.last):
            continue
        seq, last = other.first.seq, one.last.seq
        if seq <= last:
            yield _at(other.first, f"event {seq} is there twice: the line was put in, or two runners wrote at once")
        elif seq == last + 1:
            yield _at(other.first, f"event {seq} does not follow from event {last}: one of them was rewritten")
        else:
            gone = f"event {last + 1} is" if seq == last + 2 else f"events {last + 1} to {seq - 1} are"
            yield _at(other.first, f"{gone} missing")


def _follows(link: ChainLink, before: ChainLink) -> bool:
    return link.seq == before.seq + 1 and link.previous == before.hash


def _at(link: ChainLink, words: str) -> EventProblem:
    return EventProblem(link.path, link.line, words)
