"""A recorded run once more, without a model and without tools: what does this version tell the same model of the same
results? What a tool of this version would do is not asked. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.interruption import Interrupted
from infra.cell.loop.loop import MAY_AWAIT, RunResult, Task, TaskContext, run_task
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.record import Acted, Acting, Answered, Line, Told, standing
from infra.cell.loop.ways import News, news_of
from infra.cell.run_states import StopReason
from infra.shared.conversation import Completion, Request

OUTSIDE = (StopReason.MAX_WALL_TIME, StopReason.MODEL_UNAVAILABLE, StopReason.INTERRUPTED, StopReason.NOT_RECORDED)
"""Reasons from outside the conversation: a replay only sees that nothing follows."""
SHOWN_CHARS = 200
_Key = tuple[str, str]
_Shown = Acted | Told


class Difference(NamedTuple):
    """Something that went another way."""

    where: str
    """`3` is a step, `3.1` the first call in it."""
    recorded: str
    replayed: str


class Replay(NamedTuple):
    """How the replay went."""

    events: int
    """Answers, calls and words that were played."""
    end: str
    differences: tuple[Difference, ...]
    """The first one, as what follows it is another run; none when all went as it did."""


def replay(lines: Sequence[Line]) -> Replay:
    """Raises ValueError when these are not the lines of one run."""
    run = standing(lines)
    answers = iter([line.completion for line in lines if isinstance(line, Answered)])
    theirs = dict[_Key, _Shown]()
    for line in lines:
        if isinstance(line, Told) and isinstance(before := theirs.get(_key(line)), Told):  # the run was resumed
            said = news_of(News(before.pm, before.runtime), News(line.pm, line.runtime))
            line = Told(line.step_id, before.own, said.pm, said.runtime)
        if isinstance(line, _Shown):
            theirs[_key(line)] = line
    seen = list[Line]()

    def complete(request: Request) -> Completion:
        for answer in answers:
            return answer
        raise ModelFailure("unavailable", "the record ends here")

    def dispatch(call: ToolCall) -> ToolResult:
        begun = seen[-1]
        found = theirs.get(("Acted", begun.step_id)) if isinstance(begun, Acting) else None
        if not isinstance(found, Acted):
            raise Interrupted
        return found.result

    def news() -> str | None:
        step = max(line.step for line in seen if isinstance(line, Answered))
        told = theirs.get(("Told", str(step)))
        return News(told.pm, told.runtime) if isinstance(told, Told) else None

    config = RunConfig(run.opened.most_steps or run.steps + 1, math.inf)
    context = TaskContext(complete, dispatch, news, seen.append, monotonic=lambda: 0.0)
    result = run_task(Task(run.opened.request, run.opened.acts), config, context)
    mine = {_key(line): line for line in seen if isinstance(line, _Shown)}
    found = *_of_lines(theirs, mine, run.steps), *_of_end(run.end, result)
    return Replay(sum(isinstance(line, Answered) for line in seen) + len(mine), result.reason.value, found[:1])


def _key(line: _Shown) -> _Key:
    return type(line).__name__, line.step_id


def _of_lines(theirs: Mapping[_Key, _Shown], mine: Mapping[_Key, _Shown], last: int) -> Iterator[Difference]:
    """What only one of them has counts up to the last step, which may have been cut short."""
    for key in {**theirs, **mine}:
        was, now = _facts(theirs.get(key)), _facts(mine.get(key))
        if was != now and (key in theirs or mine[key].step < last):
            yield Difference(key[1], was[:SHOWN_CHARS], now[:SHOWN_CHARS])


def _facts(line: _Shown | None) -> str:
    match line:
        case Acted():
            return f"{line.tool_name} {line.args}: {line.result}"
        case Told():
            return "\n\n".join(filter(None, (line.own, line.pm, line.runtime)))
    return "nothing"


def _of_end(recorded: str, result: RunResult) -> Iterator[Difference]:
    if recorded == StopReason.AWAITING_APPROVAL.value and result.reason in MAY_AWAIT:
        return  # the record does not say that an approval is pending
    goes_on = result.reason in (StopReason.MODEL_UNAVAILABLE, StopReason.INTERRUPTED)  # there was nothing more
    if recorded in ("", StopReason.INTERRUPTED.value, result.reason.value):
        return
    if not goes_on or recorded not in {each.value for each in OUTSIDE}:
        yield Difference("end", recorded, "it goes on" if goes_on else result.reason.value)
