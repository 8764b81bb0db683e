"""Which events the keep vouches for: those from which a head that it holds follows, by the hashes in them. Pure.

A line is known by its content, so that what was found once needs no look at the chain again, wherever it stands."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from infra.cell.mind.event import ChainTip, EventLine, EventProblem, path_of
from infra.cell.mind.event_chain import MOST_FINDINGS, link_of

NOT_VOUCHED: Final = "no head that the keep holds follows from it"
MOST_ENDS: Final = 1000


class VouchingHead(Protocol):
    @property
    def since(self) -> int: ...
    @property
    def seq(self) -> int: ...
    @property
    def hash(self) -> str: ...


class _Open(NamedTuple):
    """A line that nothing is known of yet."""

    before: ChainTip
    content: bytes
    path: str
    line: int


class Vouched:
    """The lines that are known to be vouched for."""

    def __init__(self) -> None:
        self._known = set[bytes]()
        self._first = dict[ChainTip, int]()
        """Of the newest heads whose events are known: the first of those that lead to it without a gap."""

    def holds(self, raw: bytes) -> bool:
        return _content(raw) in self._known

    def sifted(self, lines: Iterable[EventLine]) -> Iterator[EventLine]:
        """Of one file or of many. An event counts once, and in the file of its day alone: a copy is no other event.
        Of what does not count, NOT_VOUCHED says so."""
        path, seen = "", set[bytes]()
        for line in lines:
            if line.path != path:
                path, seen = line.path, set()
            if line.event is None:
                yield line
            elif line.raw not in seen and path_of(line.event.timestamp) == path and self.holds(line.raw):
                seen.add(line.raw)
                yield line
            else:
                yield line._replace(event=None, why=NOT_VOUCHED)

    def take(self, lines: Iterable[EventLine], heads: Sequence[VouchingHead]) -> list[EventProblem]:
        """Find out which of these lines the heads vouch for. A head vouches for all of its
        events or for none: what one of them says can hang on another. Gives those that stand where a head vouches for
        others, or are none of the chain, the first ones: somebody rewrote them, dropped some, or put them in. What no
        head covers, as a run leaves it that was cut short, is none of them, and is not vouched for either."""
        there, problems = dict[ChainTip, _Open](), list[EventProblem]()
        for line in lines:
            content = _content(line.raw)
            if content in self._known:
                continue
            link, why = link_of(line)
            if link and not why:
                before = ChainTip(link.seq - 1, link.previous)
                there[ChainTip(link.seq, link.hash)] = _Open(before, content, line.path, line.line)
            elif why and len(problems) < MOST_FINDINGS:
                problems.append(EventProblem(line.path, line.line, why))
        ordered, first = sorted(there), dict(self._first)
        for tip in ordered:
            first[tip] = first.get(there[tip].before, tip.seq)
        since = dict[ChainTip, int]()
        for head in heads:
            end = ChainTip(head.seq, head.hash)
            if end in there and first[end] <= head.since <= head.seq:
                since[end] = min(since.get(end, head.since), head.since)
                self._first[end] = first[end]
        for tip in reversed(ordered):
            least = since.get(tip)
            if least is not None and least <= tip.seq:
                self._known.add(there[tip].content)
                before = there.pop(tip).before
                since[before] = min(since.get(before, least), least)
        self._first = dict(sorted(self._first.items())[-MOST_ENDS:])
        covered = _Spans(heads)
        for tip in (tip for tip in ordered if tip in there and tip.seq in covered):
            if len(problems) == MOST_FINDINGS:
                break
            why = f"event {tip.seq} leads to no head that the keep holds: it was put in, or others changed or dropped"
            problems.append(EventProblem(there[tip].path, there[tip].line, why))
        return problems


class _Spans:
    """Numbers for which some head vouches."""

    def __init__(self, heads: Iterable[VouchingHead]) -> None:
        self._begins, self._ends = list[int](), list[int]()
        for since, seq in sorted((head.since, head.seq) for head in heads):
            if self._ends and since <= self._ends[-1]:
                self._ends[-1] = max(seq, self._ends[-1])
            else:
                self._begins.append(since)
                self._ends.append(seq)

    def __contains__(self, seq: int) -> bool:
        at = bisect_right(self._begins, seq)
        return at > 0 and seq <= self._ends[at - 1]


def _content(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()
