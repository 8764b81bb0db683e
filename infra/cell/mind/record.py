"""Writes events, from what the loop did; the model has no part in it.

The keep has the log. The events of a step are sent to it together; what it does not take waits in this process and goes
with the next step's, and when it takes none for a minute, the run ends."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import msgspec

from infra.cell.actions import NOTE, ToolCall, ToolResult
from infra.cell.cell import Cell
from infra.cell.loop.loop import RunResult
from infra.cell.loop.record import Acted, Answered, Entered, Line, NotRecorded, Told
from infra.cell.mind.history import Drafted, DutyStep, LogEntry, Moved, Promoted, Trial
from infra.cell.mind.tasks import is_completed
from infra.cell.run_states import RunState
from infra.cell.tools.tool import Position
from infra.shared.conversation import EXPLORATION, MAINTENANCE, TASK, Completion
from infra.shared.mind.event import (
    Command,
    EventContext,
    EventMetadata,
    EventType,
    Execution,
    MindEvent,
    ModifiedFile,
    Outcomes,
)
from infra.shared.secret_shapes import redacted, redacted_and_cut
from infra.shared.web import WebTool

SECONDS: Final = 60.0
"""So long a run goes on while nobody takes its events."""
HOPS, CHANGES = ("bootstrap", "rollback"), ("write_file", "edit_file", "delete_file")
COMMAND_CHARS, SAID_CHARS, WORDS_CHARS, ARGUMENT_CHARS = 4000, 1000, 400, 300
MOST_LISTED, MOST_SHOWN = 50, 500
_NOTHING: Final = Completion((), "", "")
_SAYS_WHICH = frozenset(["path", "url", "query", "words", "branch", "ref", "subject", "statement"])
_PUSH = re.compile(r"\bgit\b[^\n;|&]{0,200}\bpush\b")
_SKILL = re.compile(r"(?:^|/)skills/((?:core|learned|candidates)/[a-z0-9][a-z0-9_-]{0,63})/SKILL\.md")
_VERSION = re.compile(r"^version: *[\"']?([0-9]+\.[0-9]+\.[0-9]+)\b", re.MULTILINE)
_TYPES: Final[dict[type[LogEntry], EventType]] = {
    Promoted: "note",
    Trial: "skill_execution",
    Moved: "self_modification",
    Drafted: "self_modification",
    DutyStep: "task_update",
}
"""Of events with an entry of the history."""


class Outbox:
    """Of one mind, in this process."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.waiting = list[MindEvent]()
        self._monotonic = monotonic
        self._since: float | None = None
        """When the first send failed of those that failed one behind the other."""

    def send(self, record: Callable[[Sequence[dict[str, Any]]], object]) -> None:
        """All that waits, one by one: none is too long for a request. Raises OSError when some of it still waits."""
        try:
            while self.waiting:
                record([msgspec.to_builtins(self.waiting[0])])
                del self.waiting[0]
        except OSError:
            self._since = self._monotonic() if self._since is None else self._since
            raise
        self._since = None

    @property
    def is_late(self) -> bool:
        return self._since is not None and self._monotonic() - self._since > SECONDS


@functools.cache
def outbox_of(root: str) -> Outbox:
    """Of the mind at `root`: a run's events and its duties' go one behind the other."""
    return Outbox()


def tell(cell: Cell, *entries: LogEntry, words: str = "") -> None:
    """Raises OSError when the keep does not take them now: then they go with the next events."""
    outbox = outbox_of(cell.boot.places.mind)
    for entry in entries:
        metadata = EventMetadata(label=MAINTENANCE, status="ok", details=msgspec.to_builtins(entry))
        outbox.waiting.append(MindEvent(_TYPES[type(entry)], outcomes=Outcomes(observations=words), metadata=metadata))
    outbox.send(cell.keep.record)


@dataclass
class Recorder:
    """Of one run. No method raises but `record`, and that NotRecorded alone."""

    cell: Cell
    position: Position
    words: str
    """The PM's that the run is about."""
    ids: Sequence[str] = ()
    """Of its directives or tasks."""
    shown: Sequence[str] = ()
    """Ids of what was placed before it."""
    resumed: bool = False
    label: str = TASK
    _is_begun: bool = False
    """Its first event is told."""
    _last: Completion = _NOTHING
    _skill: str = ""
    """That it read last."""
    _spend: float = 0.0
    """Of the exploration budget since the event before."""

    def __post_init__(self) -> None:
        self._outbox = outbox_of(self.cell.boot.places.mind)

    def record(self, event: Line) -> None:
        """Raises NotRecorded."""
        if isinstance(event, Entered) and event.state is not RunState.PLAN:
            return
        if not self._is_begun:  # a resumed run may begin with an act that was cut short
            self._is_begun = True
            self._state("went on" if self.resumed else "began", self.words, shown=list(self.shown[:MOST_SHOWN]))
        match event:
            case Entered():
                self._send()
            case Answered(_, completion):
                self._last = completion
                self._spend += completion.usd if self.label.startswith(EXPLORATION) else 0.0
            case Told(pm=words) if words:
                self._state("said", words)
            case Acted():
                self._acted(event)

    def end(self, result: RunResult, **details: Any) -> None:
        """The run is over, and the keep has its events; those that it does not take wait for the next run."""
        if not self._is_begun:
            return
        completed = self.ids if is_completed(result) and not self.label.startswith(EXPLORATION) else ()
        facts = {"failure": str(result.failure or ""), "completed": list(completed), "steps": result.steps}
        self._state(result.reason.value, result.text, **facts, **details)
        try:
            self._send()
        except NotRecorded as problem:
            self.cell.log.info("mind.end_not_recorded", error=str(problem))

    def _send(self) -> None:
        try:
            self._outbox.send(self.cell.keep.record)
        except OSError as error:
            self.cell.log.info("mind.events_wait", error=str(error))
            if self._outbox.is_late:
                why = "What is not on record is not done: the PM looks at doors.log (minifram doctor)"
                raise NotRecorded(f"the keep takes no events: {error}. {why}") from error

    def _acted(self, event: Acted) -> None:
        call, result = event.call, event.result
        checkout = self.cell.boot.places.main_checkout
        left = () if call.name in CHANGES else tuple(_short(path) for path in result.artifacts[:MOST_LISTED])
        outcomes = Outcomes(_changed(call, result, checkout), left, _observed(call, result))
        done = _executed(call, result, event.duration_ms, checkout)
        about = EventContext(intent=intent_of(self._last.text))
        made = MindEvent(_type(call, result), about, done, outcomes, step_id=event.step_id)
        self._put(made, result.status, _details(call, result), _short(call.name))
        self._skill = skill_read(call, result) or self._skill

    def _state(self, status: str, words: str, **details: Any) -> None:
        """The run is in another state."""
        made = MindEvent("task_update", outcomes=Outcomes(observations=redacted_and_cut(words, SAID_CHARS)))
        self._put(made, status, {"directives": list(self.ids[:MOST_LISTED])} | details)

    def _put(self, made: MindEvent, status: str, details: dict[str, Any], tool: str = "") -> None:
        used, task = self._last.usage, self.ids[0] if self.ids else None
        metadata = EventMetadata(
            llm_model=self._last.model,
            context_tokens=used.input_tokens + used.cache_read_tokens + used.cache_write_tokens,
            curiosity_spend=self._spend,
            label=self.label,
            tool=tool,
            status=status,
            details=details,
        )
        about = EventContext(task, self._skill or None, made.context.intent)
        made = msgspec.structs.replace(made, context=about, metadata=metadata, run_id=self.position.run)
        self._outbox.waiting.append(made)
        self._spend = 0.0


def skill_read(call: ToolCall, result: ToolResult) -> str:
    """`learned/NAME@1.0.0` of a skill whose text the act has read, as far as that is to be seen; empty for none."""
    if call.name not in ("read_file", "bash") or not result.ok:
        return ""
    named = {found[1] for each in call.args.values() if isinstance(each, str) for found in _SKILL.finditer(each)}
    version = _VERSION.search(result.payload[:4000])
    return f"{named.pop()}@{version[1]}" if len(named) == 1 and version else ""


def intent_of(words: str) -> str:
    """The first line of what the model says beside its acts; empty where that is a list of operations."""
    line = next((line.strip() for line in redacted(words).splitlines() if line.strip()), "")
    return "" if line.startswith(("[", "{", "`", "<", "\ufeff")) else line[:ARGUMENT_CHARS]


def _type(call: ToolCall, result: ToolResult) -> EventType:
    if not result.ok:
        return "error"
    if call.name in (NOTE, "recall"):
        return "note"
    pushes = call.name == "bash" and _PUSH.search(str(call.args.get("command", ""))[: 16 * COMMAND_CHARS])
    is_own = call.name in HOPS or (pushes and result.facts.get("exit") == 0)
    return "self_modification" if is_own else "skill_execution"


def _executed(call: ToolCall, result: ToolResult, duration_ms: int, checkout: str) -> Execution:
    commands: tuple[Command, ...] = ()
    script = call.args.get("command" if call.name == "bash" else "check")
    if call.name in ("bash", NOTE) and isinstance(script, str) and script:
        cwd = os.path.join(checkout, str(call.args.get("cwd", ""))).rstrip("/")
        commands = (Command("bash", ("-c", redacted_and_cut(script, COMMAND_CHARS)), _short(cwd)),)
    status = result.facts.get("exit")
    return Execution(commands, (status,) if commands and isinstance(status, int) else (), duration_ms)


def _changed(call: ToolCall, result: ToolResult, checkout: str) -> tuple[ModifiedFile, ...]:
    if call.name not in CHANGES or not result.ok:
        return ()
    found = list[ModifiedFile]()
    for path in (os.path.normpath(os.path.join(checkout, each)) for each in result.artifacts[:MOST_LISTED]):
        try:
            with open(path, "rb") as file:
                after = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        except OSError:
            after = "deleted"
        found.append(ModifiedFile(_short(path), after))
    return tuple(found)


def _observed(call: ToolCall, result: ToolResult) -> str:
    """What was seen, briefly. Of a page of the web nothing: what strangers wrote is no observation."""
    if call.name in get_args(WebTool):
        return _short(result.payload.partition("\n")[0])
    if not result.ok:
        return redacted_and_cut(result.shown, WORDS_CHARS)
    shown = "" if call.name in ("read_file", NOTE, "recall") else redacted(result.shown).strip()
    return shown if len(shown) <= WORDS_CHARS else f"…{shown[1 - WORDS_CHARS :]}"


def _details(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    if NOTE in result.facts:
        return dict(result.facts[NOTE])
    given: dict[str, Any] = {name: _short(str(call.args[name])) for name in call.args.keys() & _SAYS_WHICH}
    return given | {name: list(result.facts[name]) for name in ("shown", "statements") if name in result.facts}


def _short(text: str) -> str:
    return redacted_and_cut(text, ARGUMENT_CHARS)
