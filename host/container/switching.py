"""From one image of an agent to another and back: what to do next, from what is there. Pure.

There are two containers, the one under the agent's name and the old one, set aside; one of them at most runs. A
switch that was cut short anywhere goes on from its journal and the two, so nothing has to be remembered but these."""

from __future__ import annotations

import enum
import json
from typing import Any, NamedTuple

from host.container.words import Image


class SwitchStep(enum.Enum):
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
    MAKE_OLD = "make the old container again, with its memory"
    START_OLD = "start the old container"
    AWAIT_OLD = "wait until the old one serves"
    CLOSE = "report to the PM, remove the journal"


class Journal(NamedTuple):
    """A switch under way; on the disk before anything is touched."""

    id: str
    at: str
    old: Image
    new: Image
    level: str = ""
    """On which level the old one served: main, or what stood in for it."""
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
    """The one under the agent's name was started by this command. One that has ended by now is judged, too, or it
    would be started for ever."""


def next_step(journal: Journal, facts: Facts) -> SwitchStep:
    if facts.aside and facts.aside.runs:
        return SwitchStep.STOP_ASIDE
    return _back(journal, facts) if journal.why else _forward(journal, facts)


def _forward(journal: Journal, facts: Facts) -> SwitchStep:
    named = facts.named
    if facts.verdict:
        return SwitchStep.TURN_BACK
    if named and named.version == journal.old.version and facts.aside is None:
        if named.runs:
            return SwitchStep.STOP_OLD
        return SwitchStep.COPY_MEMORY if journal.memory is None else SwitchStep.SET_ASIDE
    if journal.memory is None:  # the old one was removed by other hands
        return SwitchStep.COPY_MEMORY if named is None else SwitchStep.TURN_BACK
    if named is None:
        return SwitchStep.BEGIN_NEW
    if named.version != journal.new.version:
        return SwitchStep.TURN_BACK
    if not named.runs and not _awaits_verdict(facts):
        return SwitchStep.BEGIN_NEW
    return SwitchStep.AWAIT_NEW if facts.verdict is None else SwitchStep.FINISH


def _back(journal: Journal, facts: Facts) -> SwitchStep:
    named = facts.named
    if named and named.version != journal.old.version:
        return SwitchStep.REMOVE_NEW
    if named is None:
        return SwitchStep.PUT_BACK if facts.aside else SwitchStep.MAKE_OLD
    if facts.verdict is not None:
        return SwitchStep.CLOSE
    return SwitchStep.AWAIT_OLD if named.runs or _awaits_verdict(facts) else SwitchStep.START_OLD


def _awaits_verdict(facts: Facts) -> bool:
    return facts.is_begun and facts.verdict is None


def puts_memory_back(journal: Journal, facts: Facts) -> bool:
    """Whether giving a switch up, as `down` does, has to undo what a new watcher may have remembered."""
    is_old_again = facts.named is not None and facts.named.version == journal.old.version
    return journal.memory is not None and facts.aside is not None and not is_old_again


def to_bring(kept: str, now: str) -> str | None:
    """Of two memories, the kept one where an older watcher could not read today's; None to leave today's."""
    return kept if kept and _read(kept).get("schema") != _read(now).get("schema") else None


def was_forgotten(memory: str) -> str:
    """In words, what a watcher loses that cannot read its predecessor's memory; empty when there was nothing."""
    known = _read(memory)
    known_good, pins, untold = (
        [each if isinstance(each, dict) else {} for each in found] if isinstance(found := known.get(key), list) else []
        for key in ("known_good" if "known_good" in known else "goods", "pins", "untold")  # of the version before
    )
    lines = [f"- {len(known_good)} earlier versions of main that had proved good"] if known_good else []
    for pin in pins:
        lines.append(f"- no longer pinned: {pin.get('branch')}@{str(pin.get('commit'))[:12]}: {pin.get('why')}")
    lines += [f"- never reported: {each.get('title')}: {each.get('text')}" for each in untold]
    return "\n".join(lines)


def _read(memory: str) -> dict[str, Any]:
    try:
        found = json.loads(memory)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
