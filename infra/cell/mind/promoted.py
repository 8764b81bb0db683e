"""`logs/health/promotions.jsonl`: a line for each change that learning made to memory, so that no pass makes it again.

What the PM took out of memory does not come back by old events: only what was noted after the line counts anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

PATH: Final = "logs/health/promotions.jsonl"
MOST_BYTES: Final = 4 << 20
"""Of its end, so much is read."""
What = Literal["item", "belief", "validated", "contested", "superseded", "compatible", "conditions"]
PROMOTIONS: Final = ("item", "belief")


class PromotionLine(msgspec.Struct, frozen=True):
    at: str
    what: What
    key: str
    """Of the statement; two with a `+` between them for a pair."""
    id: str = ""
    seq: int = 0
    """Of the last event that was considered."""


class PromotionLog(NamedTuple):
    lines: tuple[PromotionLine, ...] = ()

    def last_seq(self, what: What, key: str) -> int:
        """0 when there was none."""
        return max((line.seq for line in self.lines if line.what == what and line.key == key), default=0)

    def on(self, day: str) -> int:
        """Promotions of the UTC day."""
        return sum(line.what in PROMOTIONS and line.at.startswith(day) for line in self.lines)

    @property
    def compatible(self) -> frozenset[str]:
        """Pairs that were judged to be no contradiction."""
        return frozenset(line.key for line in self.lines if line.what == "compatible")

    def with_lines(self, lines: Iterable[PromotionLine]) -> PromotionLog:
        return PromotionLog((*self.lines, *lines))


_DECODER = msgspec.json.Decoder(PromotionLine)


def log_of(content: bytes) -> PromotionLog:
    """Lines that are none of ours are passed over: the worst that follows is that something is considered anew."""
    found = list[PromotionLine]()
    for line in content.split(b"\n"):
        try:
            found.append(_DECODER.decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    return PromotionLog(tuple(found))


def pair_key(one: str, other: str) -> str:
    return "+".join(sorted((one, other)))
