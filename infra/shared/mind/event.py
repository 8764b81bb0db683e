"""One line of `logs/events/YYYY-MM-DD.jsonl`: what one act was, and what came of it. The runner tells it, never the
model; the keep stamps it and appends it to a file that the cell reads and cannot write."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from infra.shared.mind.layout import EVENTS
from infra.shared.safe_files import Below

EventType = Literal["skill_execution", "task_update", "self_modification", "error", "note"]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""A line with a larger number is no event: sums stay numbers."""
SUFFIX: Final = ".jsonl"
MOST_FILES: Final = 40_000
"""A century of days."""
PLACE: Final = re.compile(rf"{EVENTS}/([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\.jsonl):([0-9]{{1,9}})")
"""How an event is named: `logs/events/2026-01-31.jsonl:17`."""


class Command(msgspec.Struct, frozen=True):
    cmd: str
    args: tuple[str, ...] = ()
    cwd: str = ""


class EventContext(msgspec.Struct, frozen=True):
    task_id: str | None = None
    """`TASK-001`, or the id of a directive."""
    triggering_skill: str | None = None
    """`learned/web_research@1.2.0`."""
    intent: str = ""


class Execution(msgspec.Struct, frozen=True):
    commands: tuple[Command, ...] = ()
    exit_codes: tuple[int, ...] = ()
    duration_ms: Count = 0


class ModifiedFile(msgspec.Struct, frozen=True):
    path: str
    hash_after: str
    """`sha256:…`, or `deleted`."""


class Outcomes(msgspec.Struct, frozen=True):
    files_modified: tuple[ModifiedFile, ...] = ()
    artifacts_created: tuple[str, ...] = ()
    observations: str = ""


class EventMetadata(msgspec.Struct, frozen=True):
    llm_model: str = ""
    context_tokens: Count = 0
    confidence: None = None
    """The schema has it; nothing here measures one."""
    curiosity_spend: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    """US dollars of the exploration budget since the event before."""
    label: str = "task"
    """What the run is for."""
    origins: tuple[str, ...] = ()
    """Sites whose text the run had been served by then: the keep's word, whatever the runner sends."""
    tool: str = ""
    status: str = ""
    """Of the act: `ok` and so on."""
    details: dict[str, Any] = {}
    """Of a note: its subject, statement, what it names as evidence. Of a recall: the ids that were shown."""


class MindEvent(msgspec.Struct, frozen=True):
    event_type: EventType
    context: EventContext = EventContext()
    execution: Execution = Execution()
    outcomes: Outcomes = Outcomes()
    metadata: EventMetadata = EventMetadata()
    run_id: str = ""
    step_id: str = ""
    """`3.1`: the first call of step 3; empty for what no step did."""
    timestamp: str = ""
    """The keep's."""
    seq: Count = 0
    """1 for the first event of all, then one more each; the keep's."""


class EventLine(NamedTuple):
    """An event, and where it stands."""

    day: str
    """The file's name."""
    line: int
    """From 1."""
    event: MindEvent

    @property
    def place(self) -> str:
        return f"{EVENTS}/{self.day}:{self.line}"


def name_of(at: str) -> str:
    """The file for events of this timestamp."""
    return f"{at[:10]}{SUFFIX}"


def event_files(events: Below, since: str = "") -> list[str]:
    """Names of the files in the log's directory, by their days; from this day on. Raises OSError; for a directory that
    is missing there are none."""
    try:
        names = events.names(".", MOST_FILES)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(SUFFIX) and name >= since)


def logged_on(events: Below, name: str, behind: int = 0) -> Iterator[EventLine]:
    """The events of one file, from behind this line on; none of a missing file. A line that a power cut tore is passed
    over. Raises OSError."""
    with suppress(FileNotFoundError), closing(events.opened(name)) as file:
        for number, line in enumerate(file, 1):
            if number > behind:
                with suppress(msgspec.MsgspecError, ValueError):
                    yield EventLine(name, number, _DECODER.decode(line))


def event_at(events: Below, place: str) -> MindEvent | None:
    """The event that `logs/events/2026-01-31.jsonl:17` names. Raises OSError."""
    if found := PLACE.search(place):
        first = next(logged_on(events, found[1], int(found[2]) - 1), None)
        return first.event if first and first.line == int(found[2]) else None
    return None


_DECODER = msgspec.json.Decoder(MindEvent)
