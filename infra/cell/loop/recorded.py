"""A run by its transcript: its opening, the model's answers, the results of its calls, and what the model was told
between them. Pure; a transcript is the agent's own file, so anything may stand in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import convert

from infra.cell.actions import STATUSES, ToolCall, ToolResult
from infra.cell.loop.ways import News
from infra.shared.boot import OPERATIONS, TOOLS
from infra.shared.conversation import Completion, Request

OPENED = {TOOLS: "opened", OPERATIONS: "opened for operations"}
"""The kind of the first line. A runner that knows of no operations must not resume such a run: it would take the first
list for the report."""


class Done(NamedTuple):
    """A call that was answered."""

    call: ToolCall
    result: ToolResult


class Heard(NamedTuple):
    """What the model was told beside results."""

    text: str
    steered: str
    """The part of it that was the runner's to say, not the loop's own."""


class Recorded(NamedTuple):
    """One run. Steps are counted from 1, and so are the calls of a step."""

    run_id: str
    request: Request
    """Its opening."""
    directives: tuple[str, ...]
    """Ids of those that it was about at first."""
    machine: str
    """Which start of the machine it opened in."""
    most_steps: int
    """It was allowed so many."""
    completions: tuple[Completion, ...]
    """Of the steps 1 to n, none left out."""
    done: Mapping[tuple[int, int], Done]
    begun: frozenset[tuple[int, int]]
    """Calls that were begun, answered or not."""
    told: Mapping[int, Heard]
    """After a step."""
    summaries: Mapping[int, str]
    """Before the model call of a step."""
    resumed: int
    """So often it was resumed since a runner last got as far as the model."""
    at: str
    """Time of its last line."""
    end: str = ""
    """How it ended: a `StopReason`, or another version's word; empty when that is not on record."""
    acts: str = TOOLS
    """How its model asks for acts: a name of `WAYS`."""
    states: tuple[str, ...] = ()
    """In which it was, in order."""

    @property
    def steps(self) -> int:
        return len(self.completions)


def recorded(lines: Iterable[Mapping[str, Any]]) -> Recorded:
    """The run that these lines of a transcript tell of. Raises ValueError when they tell of none."""
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        try:
            reader.take(line)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"line {number} of the transcript cannot be understood: {error!r}") from None
    return reader.run()


class _Reader:
    """What the lines so far say."""

    def __init__(self) -> None:
        self._opened: tuple[str, Request, tuple[str, ...], str, int] | None = None
        self._completions: list[Completion] = []
        self._done: dict[tuple[int, int], Done] = {}
        self._begun: set[tuple[int, int]] = set()
        self._told: dict[int, Heard] = {}
        self._summaries: dict[int, str] = {}
        self._resumed = 0
        self._at = self._end = ""
        self._acts = TOOLS
        self._states: list[str] = []
        self._answered_at = 0
        """So many states were on record when the model had answered last."""

    def take(self, line: Mapping[str, Any]) -> None:
        kind = line["kind"]
        if (self._opened is None) is not (kind in OPENED.values()):
            raise ValueError(f"found {kind!r}; expected a run to open first, and once")
        self._at, self._end = str(line["at"]), ""
        if kind == "resumed":  # what the loop did after the last answer, it does again
            del self._states[self._answered_at :]
        self._states += map(str, line.get("states", ()))
        match kind:
            case "opened" | "opened for operations":
                directives = tuple(str(each) for each in line.get("directives", ()))
                self._acts = OPERATIONS if kind == OPENED[OPERATIONS] else TOOLS
                machine, most = str(line.get("machine", "")), int(line.get("most_steps", 0))
                opening = convert({key: line[key] for key in Request.__struct_fields__ if key in line}, Request)
                self._opened = (str(line["run_id"]), opening, directives, machine, most)
            case "answered":
                if line["step_id"] != str(len(self._completions) + 1):
                    raise ValueError(f"found step {line['step_id']!r}; expected {len(self._completions) + 1}")
                self._completions.append(convert(dict(line), Completion))
                self._resumed, self._answered_at = 0, len(self._states)
            case "acting":
                self._begun.add(_place(line))
            case "acted":
                call = line["call"]
                done = ToolCall(str(call["id"]), str(call["name"]), dict(call["input"]))
                self._done[_place(line)] = Done(done, _result(line))
                self._begun.add(_place(line))
            case "told":
                self._told[int(line["step_id"])] = Heard(str(line["text"]), _news(line))
            case "summed_up":
                self._summaries[int(line["step_id"])] = str(line["content"])
            case "resumed":
                self._resumed += 1
            case "model_failed" if line["type"] != "invalid_request":  # which may be the conversation's own fault
                self._resumed = 0
            case "ended":
                self._end = str(line["end"])

    def run(self) -> Recorded:
        if self._opened is None:
            raise ValueError("the transcript is empty; expected to read first how the run opened")
        return Recorded(
            *self._opened,
            tuple(self._completions),
            self._done,
            frozenset(self._begun),
            self._told,
            self._summaries,
            self._resumed,
            self._at,
            self._end,
            self._acts,
            tuple(self._states),
        )


def _place(line: Mapping[str, Any]) -> tuple[int, int]:
    step, _, number = line["step_id"].partition(".")
    return int(step), int(number)


def _news(line: Mapping[str, Any]) -> str:
    return News(str(line["pm"]), str(line["runtime"])) if "pm" in line else str(line["steered"])


def _result(line: Mapping[str, Any]) -> ToolResult:
    payload, status, hint = str(line["content"]), line["status"], str(line.get("hint", ""))
    if status not in STATUSES:
        raise ValueError(f"found status {status!r}; expected one of {', '.join(STATUSES)}")
    code, detail = str(line.get("error_code") or ""), str(line.get("detail", ""))
    return ToolResult(payload, status, code, line.get("retriable") is True, detail, hint)._replace(
        artifacts=tuple(map(str, line.get("artifacts", ()))),
        policy_flags=tuple(map(str, line.get("policy_flags", ()))),
        facts=dict(line.get("facts", {})),
        hands_over=line.get("hands_over") is True,
    )
