"""The record of a run: what the loop does, as lines, in memory and in a file of JSON lines, and what follows from them.

The loop itself stands where its lines say (`Standing`); so does a run that another runner goes on with. Pure but for
`RunRecord`. The file is the agent's own, so anything may stand in it; keys are left out."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from infra.cell.actions import AssistantAction, Respond, ToolCall, ToolCalls, ToolResult
from infra.cell.loop.progress import Progress, words_on
from infra.cell.loop.ways import WAYS, News
from infra.cell.run_states import RunState, StopReason
from infra.shared.boot import TOOLS
from infra.shared.clock import timestamp
from infra.shared.conversation import Completion, Message, Request
from infra.shared.redacted_file import RedactedFile

SCHEMA = "minifram.transcript/3"
SUFFIX = ".jsonl"
BROKEN_REPLIES = 4
"""In a row: so many replies that were not taken end the run."""
StepId = Annotated[str, msgspec.Meta(pattern=r"\A\d{1,9}(\.\d{1,9})?\Z")]
"""`3` is a step, counted from 1; `3.1` the first call in it."""


class NotRecorded(OSError):
    """What the run does cannot be written down, and must be; says why."""


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower):
    at: str = ""
    run_id: str = ""


class _OfStep(_Line, frozen=True):
    step_id: StepId

    @property
    def step(self) -> int:
        return int(self.step_id.partition(".")[0])

    @property
    def number(self) -> int:
        """Of the call in its reply, from 1."""
        return int(self.step_id.partition(".")[2] or 0)


class Opened(_Line, frozen=True):
    request: Request
    acts: str = TOOLS
    """How the model asks for acts: a name of WAYS."""
    directives: tuple[str, ...] = ()
    """Ids of those that the run is about at first."""
    most_steps: int = 0
    schema: str = SCHEMA


class Entered(_OfStep, frozen=True):
    """The run is in another state; told, and not written down."""

    state: RunState


class Answered(_OfStep, frozen=True):
    """The model answered."""

    completion: Completion


class Acting(_OfStep, frozen=True):
    """A call is about to be carried out."""

    tool_name: str
    args_hash: str


class Acted(_OfStep, frozen=True):
    """A call has its result."""

    tool_name: str
    args_hash: str
    """Of the arguments as given, not as written down."""
    duration_ms: int
    status: str
    error_code: str
    artifacts: tuple[str, ...]
    policy_flags: tuple[str, ...]
    id: str
    args: dict[str, Any]
    content: str
    retriable: bool = False
    hint: str = ""
    facts: dict[str, Any] = {}
    hands_over: bool = False

    @classmethod
    def of(cls, step_id: str, call: ToolCall, result: ToolResult, seconds: float) -> Acted:
        known = result._asdict() | {"args": dict(call.args), "facts": dict(result.facts)}
        hashed, took, content = args_hash(call.args), round(seconds * 1000), known.pop("payload")
        return cls(
            step_id, id=call.id, tool_name=call.name, args_hash=hashed, duration_ms=took, content=content, **known
        )

    @property
    def call(self) -> ToolCall:
        return ToolCall(self.id, self.tool_name, self.args)

    @property
    def result(self) -> ToolResult:
        known = {name: getattr(self, name) for name in ToolResult._fields if name != "payload"}
        return ToolResult(self.content, **known)


class Told(_OfStep, frozen=True):
    """The model is told what became of its reply, and words beside that."""

    own: str = ""
    """The loop's."""
    pm: str = ""
    runtime: str = ""


class Compacted(_Line, frozen=True):
    """The conversation was too long."""

    messages: tuple[Message, ...]
    """In the place of all that stood behind the opening."""
    answer: Completion | None = None
    """The summary, when the model wrote it."""


class Resumed(_Line, frozen=True):
    """Another runner goes on with the run."""

    commit: str = ""


class Ended(_Line, frozen=True):
    end: str
    """A word of `StopReason`."""
    steps: int = 0
    failure: str = ""


Line = Opened | Entered | Answered | Acting | Acted | Told | Compacted | Resumed | Ended


class Standing:
    """A run as its lines say that it stands."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.way = WAYS[opened.acts]()
        self.messages = list(opened.request.messages)
        self.steps = 0
        """Replies of the model."""
        self.not_taken = 0
        """The last ones of them."""
        self.progress = Progress()
        self.action: AssistantAction | None = None
        """What the last reply asks for; None once the model was told what became of it."""
        self.begun = 0
        """The number of the last of its calls that was begun."""
        self.results = list[ToolResult]()
        """Of its calls, in order."""
        self.words = ""
        """What the model was told since its last reply."""
        self.text = ""
        """The model's last words."""
        self.hands_over = False
        self.resumed = 0
        """So often since a runner last got as far as the model."""
        self.at, self.end = opened.at, ""

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """What the last reply asks for and was not told of."""
        return self.action.calls if isinstance(self.action, ToolCalls) else ()

    @property
    def ends_for(self) -> StopReason | None:
        """Why the run ends with the last reply; None when it may go on."""
        if self.hands_over:
            return StopReason.HANDED_OVER
        return self.action.reason if isinstance(self.action, Respond) and not self.action.advice else None

    def add(self, line: Line) -> None:
        """Raises ValueError for a line that cannot follow."""
        self.at, self.end = line.at, ""
        match line:
            case Opened():
                raise ValueError("found 'opened'; expected a run to open first, and once")
            case Answered(completion=completion):
                if line.step != self.steps + 1:
                    raise ValueError(f"found step {line.step_id!r}; expected {self.steps + 1}")
                self.steps, self.resumed, self.words = line.step, 0, ""
                self.begun, self.results = 0, []
                self._answered(completion)
            case Acting():
                self.begun = line.number
            case Acted():
                if line.number != len(self.results) + 1 or line.number > len(self.calls):
                    raise ValueError(f"found the result of a call {line.step_id!r} that was not asked for")
                self.results.append(line.result)
                self.hands_over |= line.hands_over
            case Told():
                self._told(line)
            case Compacted(messages=messages):
                self.messages[len(self.opened.request.messages) :] = messages
            case Resumed():
                self.resumed += 1
            case Ended(end=end):
                self.end = end
                if end == StopReason.AWAITING_APPROVAL.value:  # what comes behind it begins with the PM's answer
                    self.action, self.results, self.progress = None, [], Progress(self.progress.seen)
                elif end == StopReason.MODEL_UNAVAILABLE.value and not line.failure.startswith("invalid_request"):
                    self.resumed = 0  # else the conversation itself may be at fault

    def _answered(self, completion: Completion) -> None:
        action, said = self.way.asked(completion)
        self.messages.append(said)
        self.not_taken = self.not_taken + 1 if isinstance(action, Respond) and action.advice else 0
        if isinstance(action, Respond) and self.not_taken == BROKEN_REPLIES:
            action = action._replace(advice="")
        self.action, self.text = action, action.text

    def judged(self) -> tuple[Progress, str]:
        """What the last reply and its results come to, and the loop's own words on them."""
        if isinstance(self.action, Respond):
            return self.progress, self.action.advice
        if self.action is None:
            return self.progress, ""
        now = self.progress.after(self.calls, self.results)
        return now, words_on(self.progress, now)

    def _told(self, line: Told) -> None:
        news = News(line.pm, line.runtime)
        self.progress, _ = self.judged()
        if any(news):
            self.progress = self.progress.heard()
        blocks = self.way.answer(self.calls, self.results, line.own, news)
        if self.messages[-1].role == "user":  # words of a runner that goes on with the run
            blocks = (*self.messages.pop().content, *blocks)
        self.messages.append(Message("user", blocks))
        self.action, self.results, self.words = None, [], f"{self.words}{line.pm}{line.runtime}"


def standing(lines: Sequence[Line]) -> Standing:
    """Raises ValueError when these are not the lines of one run."""
    if not lines or not isinstance(lines[0], Opened):
        raise ValueError("expected to read in the transcript how the run opened")
    found = Standing(lines[0])
    try:
        for line in lines[1:]:
            found.add(line)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise ValueError(f"the transcript cannot be understood behind step {found.steps}: {error!r}") from None
    return found


def whole_lines(content: bytes) -> bytes:
    """Without the last line, when it was not written to its end."""
    return content[: content.rfind(b"\n") + 1]


def parse(content: bytes) -> list[Line]:
    """The whole lines of a file. Raises ValueError for one that is none."""
    found = list[Line]()
    for number, text in enumerate(whole_lines(content).splitlines(), 1):
        try:
            found.append(msgspec.convert(json.loads(text), Line))
        except (ValueError, RecursionError, OverflowError) as error:
            raise ValueError(f"line {number} of the transcript cannot be read: {error}") from None
    return found


class RunRecord:
    """The lines of one run, appended to the file at `path`, each in one write."""

    def __init__(self, path: str, run_id: str, lines: Sequence[Line] = ()) -> None:
        """`lines` are those that the file has, when the run is resumed."""
        self.lines = list(lines)
        self._path, self._run_id = path, run_id

    def append(self, line: Line) -> None:
        """Raises NotRecorded for a full disk, and for what no line can hold: nothing is done that is not on record."""
        line = replace(line, at=timestamp(time.time()), run_id=self._run_id)
        try:
            RedactedFile(self._path).append_json(msgspec.to_builtins(line))
        except (OSError, TypeError, ValueError, RecursionError) as error:
            raise NotRecorded(f"the run's record cannot be written: {error}") from None
        self.lines.append(line)

    def cut_torn_line(self) -> None:
        """The runner before ended within it. Raises OSError."""
        with open(self._path, "rb") as file:
            RedactedFile(self._path).cut(len(whole_lines(file.read())))


def args_hash(given: Mapping[str, Any]) -> str:
    """Independent of their order; empty for what no JSON can hold."""
    try:
        return hashlib.sha256(json.dumps(dict(given), sort_keys=True).encode()).hexdigest()
    except (TypeError, ValueError, RecursionError):
        return ""
