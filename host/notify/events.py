"""What happened, from what the keep's records say now against what was seen of them before; pure.

A fact holds as long as its record does, and is told once by its key. A fact of main's history is told by the commit
that made it: the commit up to which history was read is remembered with the keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec


class Fact(NamedTuple):
    """One thing that a record of the keep's says."""

    kind: str
    """One of `notify_settings.KINDS`."""
    key: str
    """`<source>/…`: the same for the same thing, however often it is looked at."""
    at: str
    text: str
    """One line, without secrets."""
    details: str = ""
    """Without secrets; sent only when the PM asks for it."""
    after_seconds: float = 0.0
    """It counts once it has held for so long."""
    is_past: bool = False
    """It is part of history, which is read once; it will not be seen again."""
    is_logged: bool = False
    """It stands in a log for a while: at the very first look it is old news."""


class Sight(NamedTuple):
    """One look at the records."""

    main: str
    """The commit up to which main's history was read."""
    facts: tuple[Fact, ...] = ()
    unread: tuple[str, ...] = ()
    """Sources that could not be read: what they said before still holds."""


class Seen(msgspec.Struct, frozen=True):
    """What is remembered of earlier looks."""

    main: str = ""
    told: tuple[str, ...] = ()
    """Keys of facts that hold and were told."""
    waiting: Mapping[str, float] = {}
    """Key -> since when, of facts that have not held for long enough."""


def observe(seen: Seen, sight: Sight, on: Collection[str], now: float) -> tuple[Seen, tuple[Fact, ...]]:
    """What to remember, and the facts that are new; those of kinds that are not `on` are passed over."""
    told, waiting, new = list[str](), dict[str, float](), list[Fact]()
    for fact in sight.facts:
        if fact.kind not in on:
            continue
        if fact.is_past:
            new.append(fact)
        elif fact.key in seen.told:
            told.append(fact.key)
        else:
            if fact.is_logged and not seen.main:
                told.append(fact.key)
                continue
            since = min(seen.waiting.get(fact.key, now), now)
            if now - since >= fact.after_seconds:
                new.append(fact)
                told.append(fact.key)
            else:
                waiting[fact.key] = since
    told += [key for key in seen.told if _source(key) in sight.unread and key not in told]
    waiting |= {key: since for key, since in seen.waiting.items() if _source(key) in sight.unread}
    return Seen(sight.main, tuple(told), waiting), tuple(new)


def _source(key: str) -> str:
    return key.partition("/")[0]
