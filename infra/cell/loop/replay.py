"""A recorded run once more, without a model and without tools: what would this version make of the same answers and
the same results? Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from infra.cell.actions import VALIDATION, ToolCall, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.loop.loop import MAY_AWAIT, Acted, Entered, Event, RunResult, Task, TaskContext, Told, run_task
from infra.cell.loop.player import Player
from infra.cell.loop.progress import RunConfig
from infra.cell.loop.recorded import Done, Recorded
from infra.cell.run_states import RunState, StopReason
from infra.cell.tools.seed import SEED_ARGS
from infra.cell.tools.tool import Args, fitting
from infra.shared.conversation import Completion, Request

_Key = TypeVar("_Key", int, tuple[int, int])
_Value = TypeVar("_Value")

OUTSIDE = {
    *(StopReason.MAX_WALL_TIME, StopReason.MODEL_UNAVAILABLE),
    *(StopReason.INTERRUPTED, StopReason.NOT_RECORDED),
}
"""Reasons from outside the conversation: a replay only sees that nothing follows."""
_CUT_SHORT = ("", StopReason.INTERRUPTED.value)
_ENDS = (RunState.STOP.value, RunState.ERROR.value)
SHOWN_CHARS = 200


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


def replay(run: Recorded, tools: Mapping[str, type[Args]] = SEED_ARGS) -> Replay:
    """Play `run` to the loop; `tools` are what those of this version take, by name. Calls of a tool that the agent gave
    itself are taken to fit."""
    seen: list[Event] = []
    context = Player(run, TaskContext(_nobody, _nothing, monotonic=lambda: 0.0)).context._replace(record=seen.append)
    result = run_task(Task(run.request, run.acts), RunConfig(run.most_steps or run.steps + 1, 1.0), context)
    states = [each.state.value for each in seen if isinstance(each, Entered)]
    found = (
        *(*_of_calls(run, seen), *_of_arguments(run, tools), *_of_words(run, seen)),
        *(*_of_states(run, states), *_of_end(run, result)),
    )
    return Replay(len(seen) - len(states), result.reason.value, found)


def _nobody(request: Request) -> Completion:
    raise ModelFailure("unavailable", "the record ends here")


def _nothing(call: ToolCall) -> ToolResult:
    raise AssertionError("unreachable: no answer is given beyond the record")


def _of_calls(run: Recorded, seen: list[Event]) -> Iterator[Difference]:
    """Calls that were answered in one of the two alone, or in another way."""
    mine = {(each.step, each.number): Done(each.call, each.result) for each in seen if isinstance(each, Acted)}
    if run.end in _CUT_SHORT:  # what its last reply called for was not answered, and is so now
        mine = {place: done for place, done in mine.items() if place in run.done or place[0] < run.steps}
    yield from _between(
        mine, run.done, lambda done: f"{done.call.name} {done.call.args}: {done.result}", "{0[0]}.{0[1]}"
    )


def _of_arguments(run: Recorded, tools: Mapping[str, type[Args]]) -> Iterator[Difference]:
    """Calls that this version would refuse, or would not refuse any more."""
    own = {tool.name for tool in run.request.tools} - tools.keys()
    for (step, number), done in sorted(run.done.items()):
        if done.result.detail in ("not_run", "cut_short") or done.call.name in own:
            continue
        try:
            fitting(tools[done.call.name], done.call.args)
            now = ""
        except ValueError as error:
            now = str(error)
        except KeyError:
            now = f"no such tool: {done.call.name!r}"
        refused = done.result.error_code == VALIDATION
        if bool(now) is not refused:
            was = done.result.payload if refused else "the call was carried out"
            yield Difference(f"{step}.{number}", was[:SHOWN_CHARS], (now or "the call fits")[:SHOWN_CHARS])


def _of_words(run: Recorded, seen: list[Event]) -> Iterator[Difference]:
    mine = {each.step: each.text for each in seen if isinstance(each, Told)}
    if run.end in _CUT_SHORT and run.steps not in run.told:
        mine.pop(run.steps, None)
    yield from _between(mine, {step: words.text for step, words in run.told.items()}, str, "{0}")


def _of_states(run: Recorded, mine: list[str]) -> Iterator[Difference]:
    """Another way from state to state, up to the end, which may have come from outside."""
    theirs = [state for state in run.states if state not in _ENDS]
    if theirs != mine[: len(theirs)]:
        yield Difference("states", " ".join(theirs), " ".join(mine))


def _of_end(run: Recorded, result: RunResult) -> Iterator[Difference]:
    goes_on = result.reason is StopReason.MODEL_UNAVAILABLE  # the record had no further answer
    if run.end == StopReason.AWAITING_APPROVAL.value and result.reason in MAY_AWAIT:
        return  # that somebody is waited for is not told by the conversation
    if run.end in (*_CUT_SHORT, result.reason.value) or (goes_on and run.end in {each.value for each in OUTSIDE}):
        return
    yield Difference("end", run.end, "it goes on" if goes_on else result.reason.value)


def _between(
    mine: Mapping[_Key, _Value], theirs: Mapping[_Key, _Value], shown: Callable[[_Value], str], where: str
) -> Iterator[Difference]:
    for key in sorted(mine.keys() | theirs.keys()):
        if mine.get(key) != theirs.get(key):
            was, now = (shown(side[key])[:SHOWN_CHARS] if key in side else "nothing" for side in (theirs, mine))
            yield Difference(where.format(key), was, now)
