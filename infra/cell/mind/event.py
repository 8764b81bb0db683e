"""One line of `logs/events/YYYY-MM-DD.jsonl`: what one act was, what came of it, and its place in the chain. The
dispatcher writes it, never the model.

Reading tolerates whatever the file holds; `event_chain` tells whether it is what was written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final, Literal, NamedTuple

import msgspec

from infra.shared.mind.layout import EVENTS
from infra.shared.secret_shapes import redacted_value
from infra.shared.text import cut

EventType = Literal["skill_execution", "task_update", "self_modification", "error", "note"]
SUFFIX: Final = ".jsonl"
GENESIS = "0" * 64
"""What the first event of all names as the one before it."""
MOST_LINE: Final = 1 << 20
"""Bytes of a line: longer ones are not ours."""
MOST_WORDS: Final = 200
TORN: Final = "the line was cut short, as by a power cut or a full disk; what it told is lost"


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
    duration_ms: int = 0


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
    context_tokens: int = 0
    confidence: float | None = None
    """As the model says of a note; None for acts."""
    curiosity_spend: float = 0.0
    """US dollars of the exploration budget since the event before."""
    label: str = "task"
    """What the run is for: `task`, `maintenance`, `exploration`, …"""
    origins: tuple[str, ...] = ()
    """Sites whose text the run's work had read by then."""
    tool: str = ""
    status: str = ""
    """Of the act: `ok` and so on."""
    details: dict[str, Any] = {}
    """Of a note: its subject, statement, what it names as evidence. Of a recall: the ids that were shown."""


class MindEvent(msgspec.Struct, frozen=True):
    timestamp: str
    event_type: EventType
    context: EventContext
    execution: Execution
    outcomes: Outcomes
    metadata: EventMetadata
    run_id: str = ""
    step_id: str = ""
    """`3.1`: the first call of step 3; empty for what no step did."""
    seq: int = 0
    """1 for the first event of all, then one more each."""
    previous: str = GENESIS
    """`hash` of the event before."""
    hash: str = ""
    """SHA-256 of the event as JSON with sorted keys, without this field, in hexadecimal."""


class ChainTip(NamedTuple):
    """Where the chain ends."""

    seq: int
    hash: str


START: Final = ChainTip(0, GENESIS)


# Writing


def chained(event: MindEvent, previous: MindEvent | None) -> MindEvent:
    """The event without secrets, as the one behind `previous`; the first of all without one.

    Raises ValueError, TypeError, RecursionError for details that JSON cannot hold."""
    tip = ChainTip(previous.seq, previous.hash) if previous else START
    return msgspec.convert(link(redacted_value(plain(event)), tip), MindEvent)


def link(shown: dict[str, Any], tip: ChainTip) -> dict[str, Any]:
    """`plain` of an event, redacted, as the one behind `tip`. Raises as `chained` does."""
    shown["seq"], shown["previous"] = tip.seq + 1, tip.hash
    shown["hash"] = hash_of(shown)
    return shown


def plain(event: MindEvent) -> dict[str, Any]:
    """As JSON's own types. Raises TypeError, RecursionError."""
    raw: dict[str, Any] = msgspec.to_builtins(event, str_keys=True)
    return raw


def encoded(event: MindEvent) -> bytes:
    """One line, its end included. Raises as `chained` does."""
    return as_line(plain(event))


def as_line(fields: dict[str, Any]) -> bytes:
    """`encoded` of what `plain` or `link` gave."""
    return json.dumps(fields, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def hash_of(fields: dict[str, Any]) -> str:
    """Of a line's object, whatever its own hash says."""
    rest = {name: value for name, value in fields.items() if name != "hash"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


# Reading


class EventProblem(NamedTuple):
    """What is wrong with a line, or with a file."""

    path: str
    line: int
    """From 1; 0 for the file."""
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.words}" if self.line else f"{self.path}: {self.words}"


class EventLine(NamedTuple):
    """A line of a file, read."""

    path: str
    """Below the mind's root."""
    line: int
    """From 1."""
    event: MindEvent | None
    why: str = ""
    """It is no event, or not one that this version knows."""
    raw: bytes = b""
    """The line without its end; empty for one that is too long."""

    @property
    def place(self) -> str:
        """As `Evidence.line` has it."""
        return f"{self.path}:{self.line}"

    @property
    def is_torn(self) -> bool:
        return self.why == TORN

    @property
    def problem(self) -> EventProblem | None:
        return EventProblem(self.path, self.line, self.why) if self.why else None


def path_of(at: str) -> str:
    """The file for an event of this timestamp, below the mind's root."""
    return f"{EVENTS}/{at[:10]}{SUFFIX}"


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Lines without their ends, of a file of any size; of one that is too long, so much that this can be seen."""
    while line := file.readline(MOST_LINE + 1):
        yield line.removesuffix(b"\n")
        while line and not line.endswith(b"\n") and len(line) > MOST_LINE:
            line = file.readline(MOST_LINE + 1)


def each_event(lines: Iterable[bytes], path: str) -> Iterator[EventLine]:
    """Of each line but empty ones, one at a time; never raises but what `lines` raises."""
    for number, line in enumerate(lines, 1):
        if len(line) > MOST_LINE:
            why = f"the line has more than {MOST_LINE:,} bytes; no event is so long, so something else wrote it"
            yield EventLine(path, number, None, why)
        elif line.strip():
            event, why = read_line(line)
            yield EventLine(path, number, event, why, line)


def read_line(line: bytes) -> tuple[MindEvent | None, str]:
    """The event, or why there is none. What a later version writes beside is passed over."""
    try:
        return _DECODER.decode(line), ""
    except msgspec.ValidationError as error:
        return None, f"the line is no event that this version knows: {cut(str(error), MOST_WORDS)}"
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        if is_torn(line):
            return None, TORN
        return None, f"the line is no JSON ({cut(str(error), MOST_WORDS)}); expected one event: something else wrote it"


def is_torn(line: bytes) -> bool:
    """Whether a line that is no JSON may be the beginning of one of ours, or a hole that a power cut left."""
    return line[: len(_BEGINS)] == _BEGINS[: len(line)] or not line.strip(b"\0")


_DECODER = msgspec.json.Decoder(MindEvent)
_BEGINS: Final = b'{"timestamp":"'
