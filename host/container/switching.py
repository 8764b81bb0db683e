"""From one image of an agent to another and back: what to do next, from what is there. Pure.

There are two containers, the one under the agent's name and the old one, set aside; one of them at most runs. A
switch that was cut short anywhere goes on from its journal and the two, so nothing has to be remembered but these."""

from __future__ import annotations

import enum
import json
from typing import Any, NamedTuple

from host.container.words import Image


class Step(enum.Enum):
    """What is done next. Each may be done twice without harm."""

    STOP_OLD = "stop the old container"
    COPY_MEMORY = "copy the watcher's memory into the journal"
    SET_ASIDE = "rename the old container"
    STOP_ASIDE = "stop the container that was set aside"
    BEGIN_NEW = "make and start the new container"
    AWAIT_NEW = "wait until the new one serves"
    FINISH = "remove the old container, note the old image"
    TURN_BACK = "write into the journal that it goes back"
    REMOVE_NEW = "stop and remove the new container"
    PUT_BACK = "put the old memory and the old container back"
    MAKE_OLD = "make the old container anew, with its memory"
    START_OLD = "start the old container"
    AWAIT_OLD = "wait until the old one serves"
    CLOSE = "tell the PM, remove the journal"


class Journal(NamedTuple):
    """A switch under way; on the disk before anything is touched."""

    id: str
    at: str
    old: Image
    new: Image
    by_hand: bool = False
    """`upgrade --back`."""
    rung: str = ""
    """On which rung of the ladder the old one served."""
    memory: str | None = None
    """`watcher.json` as the old watcher left it, empty when there was none; None until it was copied."""
    bring: str | None = None
    """A memory for the new watcher, where it cannot read what is there; None for none."""
    why: str = ""
    """Why it goes back; empty as long as it goes forward."""


class Held(NamedTuple):
    """A container of this agent."""

    version: str
    runs: bool


class Facts(NamedTuple):
    named: Held | None
    """Under the agent's name."""
    aside: Held | None
    verdict: str | None = None
    """Of the container that was awaited last: empty when it serves, else why not; None when none was."""
    is_begun: bool = False
    """The one under the agent's name was started by this command: also one that has ended by now is to be judged, or it
    would be started for ever."""


def next_step(journal: Journal, facts: Facts) -> Step:
    if facts.aside and facts.aside.runs:
        return Step.STOP_ASIDE
    return _back(journal, facts) if journal.why else _forward(journal, facts)


def _forward(journal: Journal, facts: Facts) -> Step:
    named = facts.named
    if facts.verdict:
        return Step.TURN_BACK
    if named and named.version == journal.old.version and facts.aside is None:
        if named.runs:
            return Step.STOP_OLD
        return Step.COPY_MEMORY if journal.memory is None else Step.SET_ASIDE
    if journal.memory is None:  # the old one was removed by other hands
        return Step.COPY_MEMORY if named is None else Step.TURN_BACK
    if named is None:
        return Step.BEGIN_NEW
    if named.version != journal.new.version:
        return Step.TURN_BACK
    if not named.runs and not _is_to_be_judged(facts):
        return Step.BEGIN_NEW
    return Step.AWAIT_NEW if facts.verdict is None else Step.FINISH


def _back(journal: Journal, facts: Facts) -> Step:
    named = facts.named
    if named and named.version != journal.old.version:
        return Step.REMOVE_NEW
    if named is None:
        return Step.PUT_BACK if facts.aside else Step.MAKE_OLD
    if facts.verdict is not None:
        return Step.CLOSE
    return Step.AWAIT_OLD if named.runs or _is_to_be_judged(facts) else Step.START_OLD


def _is_to_be_judged(facts: Facts) -> bool:
    return facts.is_begun and facts.verdict is None


def puts_memory_back(journal: Journal | None, facts: Facts) -> bool:
    """Whether giving a switch up, as `down` does, has to undo what a new watcher may have remembered."""
    is_half_done = facts.aside is not None and not (
        journal and facts.named and facts.named.version == journal.old.version
    )
    return journal is not None and journal.memory is not None and is_half_done


def schema_of(memory: str) -> str:
    """Of a `watcher.json`, whatever version wrote it; empty when it says none."""
    return str(_read(memory).get("schema", ""))


def to_bring(kept: str, now: str) -> str | None:
    """Of two memories, the kept one where an older watcher could not read today's; None to leave today's."""
    return kept if kept and schema_of(kept) != schema_of(now) else None


def was_forgotten(memory: str) -> str:
    """In words, what a watcher loses that cannot read its predecessor's memory; empty when there was nothing."""
    known = _read(memory)
    pins = [
        f"- pinned, and no more: {_text(pin, 'branch')}@{_text(pin, 'commit')[:12]}: {_text(pin, 'why')}"
        for pin in _list(known, "pins")
    ]
    untold = [f"- never told: {_text(each, 'title')}: {_text(each, 'text')}" for each in _list(known, "untold")]
    goods = len(_list(known, "goods"))
    return "\n".join([*([f"- {goods} earlier versions of main that had proved good"] if goods else []), *pins, *untold])


def _read(memory: str) -> dict[str, Any]:
    try:
        found = json.loads(memory)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _list(known: dict[str, Any], key: str) -> list[Any]:
    found = known.get(key)
    return found if isinstance(found, list) else []


def _text(entry: Any, key: str) -> str:
    return str(entry.get(key, "")) if isinstance(entry, dict) else ""
