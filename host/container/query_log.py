"""The resolver's log in figures: how often each registered name was asked for, how often the question went out, and how
many bytes stood in front of the name. A tunnel shows as one name with a great many of these.

Memory is bounded whatever the cell asks for. Which names are suspicious is for the PM to say."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

MOST_NAMES = 500
OTHERS = "(others)"
"""All that no longer have a line of their own. Many small names add up here."""
UNPRINTABLE = "(unprintable)"
"""dnsmasq does not show a name with odd bytes in it; honest names have none. It counts as long as a name can be."""
LONGEST_NAME = 253

_LINE = re.compile(r"dnsmasq\[\d+\]: (?:query\[[^\]]*\] (?P<asked>.*) from \S+|forwarded (?P<sent>.*) to \S+)\s*")
_SECOND_LEVEL = frozenset(
    ("ac", "co", "com", "edu", "go", "gob", "gov", "ltd", "me", "mil", "ne", "net", "nom", "or", "org", "plc")
)
"""Under a country's top level these are no names that anybody registered: example.co.uk."""


class Asked(NamedTuple):
    questions: int = 0
    sent: int = 0
    """How many went to the upstream; the rest was answered here."""
    bytes: int = 0
    """Of the labels in front of the registered name, in what was sent: what a tunnel could have carried."""

    def plus(self, other: Asked) -> Asked:
        return Asked(self.questions + other.questions, self.sent + other.sent, self.bytes + other.bytes)


class QueryLog:
    """Counts by registered name, as the lines come in."""

    def __init__(self, most_names: int = MOST_NAMES) -> None:
        self._most = most_names
        self._names: dict[str, Asked] = {}
        self._others = Asked()

    def note(self, line: str) -> None:
        """Count a line of the log; lines that are no question count nothing."""
        found = _LINE.fullmatch(line)
        if not found:
            return
        asked = found["asked"]
        name = found["sent"] if asked is None else asked
        registered, front = split_name(name)
        one = Asked(questions=1) if asked is not None else Asked(sent=1, bytes=front)
        self._names[registered] = self._names.get(registered, Asked()).plus(one)
        if len(self._names) > self._most:
            # Who carried least gives way, the newcomer last: it could otherwise never become one that carries much.
            least = min((name for name in self._names if name != registered), key=lambda name: self._names[name][::-1])
            self._others = self._others.plus(self._names.pop(least))

    def note_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.note(line)

    def top(self, most: int = 20) -> dict[str, Asked]:
        """Those that carried most; all the rest in one line."""
        ranked = sorted(self._names.items(), key=lambda item: (item[1][::-1], item[0]), reverse=True)
        rest = functools.reduce(Asked.plus, (one for _, one in ranked[most:]), self._others)
        shown = dict(ranked[:most])
        return shown | {OTHERS: rest} if any(rest) else shown

    def total(self) -> Asked:
        return functools.reduce(Asked.plus, self._names.values(), self._others)


def split_name(name: str) -> tuple[str, int]:
    """What somebody registered, as near as can be said without the public suffix list, and the bytes in front of it."""
    if name == "<name unprintable>":
        return UNPRINTABLE, LONGEST_NAME
    labels = name.lower().rstrip(".").split(".")
    country = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    kept = labels[-3:] if country else labels[-2:]
    return ".".join(kept)[:LONGEST_NAME], sum(len(label.encode()) for label in labels[: -len(kept)])
