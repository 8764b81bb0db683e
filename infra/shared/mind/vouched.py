"""Which events the keep vouches for: those from which a head that it holds follows, by the hashes in them. Pure.

A line is known by its content, so that what was found once needs no look at the chain again, wherever it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from infra.shared.mind.event import EventLine, EventProblem
from infra.shared.mind.event_chain import link_of


class VouchingHead(Protocol):
    @property
    def since(self) -> int: ...
    @property
    def seq(self) -> int: ...
    @property
    def hash(self) -> str: ...


class _Open(NamedTuple):
    """A line that nothing is known of yet."""

    seq: int
    previous: str
    content: bytes
    problem: EventProblem


class Vouched:
    """The lines that are known to be vouched for."""

    def __init__(self) -> None:
        self._known = set[bytes]()

    def holds(self, raw: bytes) -> bool:
        return _content(raw) in self._known

    def take(self, lines: Iterable[EventLine], heads: Sequence[VouchingHead]) -> list[EventProblem]:
        """Find out which of these lines the heads vouch for. Gives those that stand where a head vouches for others, or
        are none of the chain: somebody rewrote them, or put them in. What no head covers, as a run leaves it that was
        cut short, is none of them, and is not vouched for either."""
        there, problems = dict[str, _Open](), list[EventProblem]()
        for line in lines:
            content = _content(line.raw)
            if content in self._known:
                continue
            link, why = link_of(line)
            if link is None or why:
                problems += [EventProblem(line.path, line.line, why)] if why else []
                continue
            why = f"event {link.seq} leads to no head that the keep holds: it was put in, or the next ones were changed"
            there[link.hash] = _Open(link.seq, link.previous, content, EventProblem(line.path, line.line, why))
        for head in reversed(heads):
            hash = head.hash
            while (found := there.get(hash)) and found.seq >= head.since:
                self._known.add(found.content)
                del there[hash]
                hash = found.previous
        return problems + [
            each.problem for each in there.values() if any(head.since <= each.seq <= head.seq for head in heads)
        ]


def _content(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()
