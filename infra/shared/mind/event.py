"""One line of `logs/events/YYYY-MM-DD.jsonl`: what one act was, and what came of it. The runner tells it, never the
model; the keep stamps it and appends it to a file that the cell reads and cannot write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Annotated, Any, BinaryIO, Final, Literal, NamedTuple

import msgspec

from infra.shared.mind.layout import EVENTS
from infra.shared.safe_files import Below

EventType = Literal["skill_execution", "task_update", "self_modification", "error", "note"]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""A line with a larger number is no event: sums stay numbers."""
SUFFIX: Final = ".jsonl"
MOST_LINE: Final = 1 << 20
"""Bytes of a line: longer ones are not ours."""
MOST_FILES: Final = 40_000
"""A century of days."""
PLACE: Final = re.compile(rf"{EVENTS}/([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\.jsonl):([0-9]{{1,9}})")
"""How an event is named: `logs/events/2026-01-31.jsonl:17`."""
_NAME = re.compile(r"\d{4}-\d\d-\d\d" + re.escape(SUFFIX), re.ASCII)


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
    confidence: float | None = None
    """The schema has it; nothing here measures one."""
    curiosity_spend: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    """US dollars of the exploration budget since the event before."""
    label: str = "task"
    """What the run is for: `task`, `maintenance`, `exploration`, …"""
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
    """A line of a day's file, read."""

    day: str
    """The file's name."""
    line: int
    """From 1."""
    event: MindEvent | None
    """None for one that is no event, as one that a power cut tore."""

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
    return [name for name in sorted(names) if _NAME.fullmatch(name) and name >= since]


def logged(events: Below, since: str = "", is_wanted: Callable[[bytes], bool] = bool) -> Iterator[EventLine]:
    """The lines of all files from this day on that are wanted, by their bytes. Raises OSError."""
    for name in event_files(events, since):
        yield from logged_on(events, name, is_wanted)


def logged_on(events: Below, name: str, is_wanted: Callable[[bytes], bool] = bool) -> Iterator[EventLine]:
    """Those of one file; none of one that is missing. Raises OSError."""
    try:
        opened = events.opened(name)
    except FileNotFoundError:
        return
    with closing(opened) as file:
        for number, line in enumerate(_lines_of(file), 1):
            if line.strip() and is_wanted(line):
                yield EventLine(name, number, event_of(line))


def event_at(events: Below, place: str) -> MindEvent | None:
    """The event that `logs/events/2026-01-31.jsonl:17` names. Raises OSError."""
    found = PLACE.search(place)
    lines = logged_on(events, found[1]) if found else ()
    return next((each.event for each in lines if found and each.line == int(found[2])), None)


def event_of(line: bytes) -> MindEvent | None:
    """What a later version writes beside is passed over."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return None


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Lines without their ends, of a file of any size; of one that is too long, so much that it is no event."""
    while line := file.readline(MOST_LINE):
        yield line.removesuffix(b"\n")
        while line and not line.endswith(b"\n"):
            line = file.readline(MOST_LINE)


_DECODER = msgspec.json.Decoder(MindEvent)
