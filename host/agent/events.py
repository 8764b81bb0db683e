"""The events of the agent's mind: read out of its clone, which is the agent's own, chosen, redacted, and checked
against what the keep has noted of them."""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from host.agent.logs import FOLLOW_SECONDS
from host.display import seconds_of
from host.errors import conflict, usage
from host.paths import AgentPaths
from infra.shared.clock import timestamp
from infra.shared.mind import event_log, heads
from infra.shared.mind.event import EventLine, EventProblem, MindEvent, each_event, plain
from infra.shared.mind.event_chain import verify
from infra.shared.mind.integrity import LogState, problem_with_appending
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_value

MOST_HEADS_BYTES = 64 << 20
"""Half a million runs."""
MOST_SHOWN = 100_000
MOST_UNREAD = 100
PIECE_BYTES = 4 << 20
"""Of a file, at once; longer than any line."""
_AGO = re.compile(r"([0-9]{1,5})(min|m|h|d|w)")
_SECONDS = {"m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604_800}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Chosen(NamedTuple):
    """Which events are wanted; empty for all."""

    task: str = ""
    """An id of a task or directive: of all runs that were about it, also with others."""
    type: str = ""
    since: str = ""
    """As `timestamp` writes it."""
    run: str = ""
    """The beginning of its name."""


class EventsRead(NamedTuple):
    events: list[MindEvent]
    """Redacted once more: the files are the agent's own."""
    problems: list[EventProblem]


class ChainChecked(NamedTuple):
    events: int
    files: int
    heads: int
    """That the keep has noted, of the chain of today."""
    last: str
    """The number of the last event, and its hash."""
    findings: list[EventProblem]
    torn: int
    """Lines that a power cut or a full disk has cut short; they are no findings."""


def since_of(text: str, now: float) -> str:
    """`2d`, `3h`, `2026-01-31` or a whole timestamp, as a timestamp. Raises CommandError."""
    if not text:
        return ""
    if found := _AGO.fullmatch(text):
        return timestamp(max(0.0, now - int(found[1]) * _SECONDS[found[2]]))
    if _DAY.fullmatch(text) and seconds_of(f"{text}T00:00:00Z") is not None:
        return text
    if seconds_of(text) is not None:
        return text
    raise usage(f"--since {text!r} is no time; expected 30min, 12h, 2d, 1w, 2026-01-31 or 2026-01-31T10:42:12Z")


def mind_of(home: AgentPaths) -> Below:
    return Below(home.places.mind)


def read(home: AgentPaths, chosen: Chosen, last: int | None = None) -> EventsRead:
    """Those that are chosen, oldest first; only the `last` ones of them. Raises OSError."""
    kept: deque[MindEvent] = deque(maxlen=min(last if last is not None else MOST_SHOWN, MOST_SHOWN))
    problems: list[EventProblem] = []
    wanted = _Choice(chosen)
    for line in event_log.logged(mind_of(home), chosen.since[:10]):
        if line.problem and len(problems) < MOST_UNREAD:
            problems.append(line.problem)
        if line.event and wanted(line.event):
            kept.append(line.event)
    return EventsRead([shown(each) for each in kept], problems)


def follow(
    home: AgentPaths, chosen: Chosen, last: int, pause: Callable[[float], None] = time.sleep
) -> Iterator[MindEvent]:
    """The last events, then each new one as it is written, for ever. Raises OSError."""
    mind, wanted = mind_of(home), _Choice(chosen)
    ends = {path: status.st_size for path in event_log.event_files(mind) if (status := mind.status(path))}
    yield from read(home, chosen, last).events
    while True:
        for path in event_log.event_files(mind):
            piece = mind.piece(path, PIECE_BYTES, ends.get(path, 0))
            whole = piece.content.rpartition(b"\n")[0] if piece else b""
            if piece is None or not whole:
                continue
            ends[path] = piece.end - len(piece.content) + len(whole) + 1
            for line in each_event(whole.split(b"\n"), path):
                if line.event and wanted(line.event):
                    yield shown(line.event)
        pause(FOLLOW_SECONDS)


class _Choice:
    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen
        self._runs = set[str]()
        """Those that are about the task."""

    def __call__(self, event: MindEvent) -> bool:
        chosen = self._chosen
        if chosen.task and event.run_id not in self._runs:
            ids = event.metadata.details.get("directives")
            if event.context.task_id != chosen.task and not (isinstance(ids, list) and chosen.task in ids):
                return False
            if event.run_id:
                self._runs.add(event.run_id)
        return (
            (not chosen.type or event.event_type == chosen.type)
            and event.timestamp >= chosen.since
            and event.run_id.startswith(chosen.run)
        )


def shown(event: MindEvent) -> MindEvent:
    """Without secrets, also where an agent's own code wrote it."""
    import msgspec

    fields: dict[str, Any] = redacted_value(plain(event))
    return msgspec.convert(fields, MindEvent)


def check(home: AgentPaths) -> ChainChecked:
    """The chain over all files, against the keep's heads. Raises OSError."""
    noted = noted_heads(home)
    counts = {"events": 0, "torn": 0}

    def counted() -> Iterator[EventLine]:
        for line in event_log.logged(mind_of(home)):
            counts["events"] += line.event is not None
            counts["torn"] += line.is_torn
            yield line

    findings = verify(counted(), noted)
    last = event_log.tip(mind_of(home))
    files = len(event_log.event_files(mind_of(home)))
    named = f"{last.seq} {last.hash}" if last.seq else ""
    return ChainChecked(counts["events"], files, len(noted), named, findings, counts["torn"])


def accept(home: AgentPaths, now: float) -> ChainChecked:
    """What is lost or changed stays as it is: the heads noted so far do not count any more, and the end of the chain
    of today is the next that does. Else the keep takes no head until the chain is as long as it was. Nothing is taken
    out of its record. Gives what is found then. Raises OSError, CommandError when there is nothing to accept."""
    found = check(home)
    if not found.findings:
        raise conflict("the chain of events is whole: there is nothing to accept")
    last, at = event_log.tip(mind_of(home)), timestamp(now)
    lines = heads.line_of(heads.Forgotten(at))
    if last.seq:
        lines += heads.line_of(heads.Head("accepted by the PM", last.seq, last.hash, at))
    heads.add(home.places.var, lines)
    return check(home)


def log_state(home: AgentPaths, now: float) -> LogState:
    """All that `log_integrity` judges. Raises OSError."""
    from host.agent.runs import names_of

    unread: list[EventProblem] = []
    last_at, events = "", 0

    def counted() -> Iterator[EventLine]:
        nonlocal last_at, events
        for line in event_log.logged(mind_of(home)):
            if line.event:
                events, last_at = events + 1, max(last_at, line.event.timestamp)
            elif line.problem and not line.is_torn and len(unread) < MOST_UNREAD:
                unread.append(line.problem)
            yield line

    noted = noted_heads(home)
    chain = verify(counted(), noted)
    runs = [name for _, name in names_of(home)]
    return LogState(
        append_problem=problem_with_appending(mind_of(home), timestamp(now)),
        events=events,
        last_event_at=last_at,
        runs=max(len(runs), len({head.run for head in noted})),
        last_run_at=max(runs, default=""),
        heads=len(noted),
        chain=chain,
        unread=unread,
    )


def noted_heads(home: AgentPaths) -> list[heads.Head]:
    """None of an agent whose keep has noted none. Raises OSError."""
    try:
        with Below(home.places.var).opened(heads.FILE) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_HEADS_BYTES))
            content = file.read(MOST_HEADS_BYTES)
    except FileNotFoundError:
        return []
    return heads.standing(heads.read_heads(content))
