"""What is to be sent through one channel, and when; pure.

The first event of a kind goes out at once. Those of the same kind that follow within a pause are counted and go out
together after it; the pause grows while they keep coming. A letter keeps its id and its words until it was delivered,
however often that is tried: a receiver that knows the id has read it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from host.context import as_option
from host.display import with_agent
from host.notify.events import Fact

SCHEMA = "minifram.notification/1"
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 60.0, 3600.0
"""Between two letters of one kind."""
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 5.0, 3600.0
ITEMS = 5
"""The last ones of a letter are named one by one."""


class Pending(msgspec.Struct, frozen=True):
    """Events of one kind that no letter tells of yet."""

    count: int
    first_at: str
    last_at: str
    since: float
    """When the first of them was noticed."""
    items: tuple[Mapping[str, str], ...]


class Letter(msgspec.Struct, frozen=True):
    """What is sent until it is delivered."""

    id: str
    body: str
    next_at: float
    tries: int = 0


class Lane(msgspec.Struct, frozen=True):
    """The events of one kind, for one channel."""

    pending: Pending | None = None
    letter: Letter | None = None
    free_at: float = 0.0
    """No other letter is begun before."""
    pause: float = PAUSE_SECONDS


Lanes = Mapping[str, Lane]
"""By kind."""


def noticed(lanes: Lanes, facts: Sequence[Fact], now: float, has_details: bool) -> Lanes:
    """With these events pending."""
    found = dict(lanes)
    for fact in facts:
        lane = found.get(fact.kind, Lane())
        item = {"at": fact.at, "text": fact.text} | ({"details": fact.details} if has_details and fact.details else {})
        before = lane.pending or Pending(0, fact.at, fact.at, now, ())
        first, last = min(before.first_at, fact.at), max(before.last_at, fact.at)
        more = Pending(before.count + 1, first, last, before.since, (*before.items, item)[-ITEMS:])
        found[fact.kind] = replace(lane, pending=more)
    return found


def due(lanes: Lanes, agent: str, new_ids: Sequence[str], now: float) -> tuple[Lanes, tuple[str, ...]]:
    """The lanes with a letter wherever one can be begun, and the kinds whose letter is to be sent now. `new_ids`: one
    for each lane."""
    found = dict(lanes)
    for (kind, lane), id in zip(lanes.items(), new_ids, strict=True):
        if lane.letter is None and lane.pending is not None and _is_reached(lane.free_at, now):
            held_back = lane.pending.since < lane.free_at
            pause = min(2 * lane.pause, LONGEST_PAUSE_SECONDS) if held_back else PAUSE_SECONDS
            letter = Letter(id, body_of(kind, agent, id, lane.pending), now)
            found[kind] = replace(lane, pending=None, letter=letter, pause=pause)
    ready = [kind for kind, lane in found.items() if lane.letter and _is_reached(lane.letter.next_at, now)]
    return found, tuple(ready)


def delivered(lane: Lane, now: float) -> Lane:
    return replace(lane, letter=None, free_at=now + lane.pause)


def failed(lane: Lane, now: float) -> Lane:
    """The same letter is tried again later."""
    if lane.letter is None:
        return lane
    tries = lane.letter.tries + 1
    pause = min(RETRY_SECONDS * 2 ** min(tries - 1, 20), LONGEST_RETRY_SECONDS)
    return replace(lane, letter=replace(lane.letter, tries=tries, next_at=now + pause))


def body_of(kind: str, agent: str, id: str, pending: Pending) -> str:
    """The JSON that is sent, on one line."""
    items = [dict(item) | {"text": with_agent(item["text"], as_option(agent))} for item in pending.items]
    last = items[-1]["text"]
    told: dict[str, Any] = {
        "schema": SCHEMA,
        "id": id,
        "agent": agent,
        "kind": kind,
        "count": pending.count,
        "first_at": pending.first_at,
        "last_at": pending.last_at,
        "text": f"{agent}: {last}" if pending.count == 1 else f"{agent}: {pending.count} x {kind}, last: {last}",
        "items": items,
    }
    return json.dumps(told) + "\n"


def _is_reached(moment: float, now: float) -> bool:
    """A moment further away than any pause is of a clock that was put back since."""
    return now >= moment or moment - now > LONGEST_PAUSE_SECONDS
