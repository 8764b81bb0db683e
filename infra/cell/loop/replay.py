"""A recorded run once more, without a model and without tools: what would this version make of the same answers and
the same results? Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from infra.cell.loop import loop
from infra.cell.loop.arguments import problem_with_input
from infra.cell.loop.loop import Acted, Bounds, End, Event, Hooks, Outcome, Told
from infra.cell.loop.player import Player
from infra.cell.loop.recorded import Done, Recorded
from infra.cell.loop.registry import Reply
from infra.cell.loop.seed_tools import SEED_TOOLS
from infra.cell.loop.ways import WAYS
from infra.cell.model_client import ModelFailure
from infra.shared.conversation import Completion, Request, ToolSpec, ToolUse

_Key = TypeVar("_Key", int, tuple[int, int])
_Value = TypeVar("_Value")

OUTSIDE = {End.MAX_SECONDS, End.MODEL_FAILURE, End.BUDGET, End.CONTEXT, End.INTERRUPTED}
"""Ends that came from outside the conversation: a replay only sees that nothing follows."""
_CUT_SHORT = ("", End.INTERRUPTED.value)
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


_TOOLS: Mapping[str, ToolSpec] = {tool.name: tool for tool in SEED_TOOLS}


def replay(run: Recorded, tools: Mapping[str, ToolSpec] = _TOOLS) -> Replay:
    """Play `run` to the loop; `tools` are those of this version, by name. A tool that the agent gave itself is known by
    what the record says of it."""
    tools = {tool.name: tool for tool in run.request.tools} | dict(tools)
    seen: list[Event] = []
    player = Player(run, _nobody, _nothing, Hooks(monotonic=lambda: 0.0))
    bounds = Bounds(run.most_steps or run.steps + 1, 1.0)
    outcome = loop.run(
        player.complete, run.request, player, bounds, player.hooks._replace(record=seen.append), WAYS[run.acts]
    )
    found = (*_of_calls(run, seen), *_of_arguments(run, tools), *_of_words(run, seen), *_of_end(run, outcome))
    return Replay(len(seen), outcome.end.value, found)


def problem_with_step(run: Recorded, step: int) -> str | None:
    """Why no run can be forked after this step; None when it can."""
    if not 1 <= step <= run.steps:
        return f"run {run.run_id} has {run.steps} steps; expected one of these, found {step}"
    end = replay(run.until(step)._replace(most_steps=step + 1), {}).end
    if end != End.MODEL_FAILURE.value:
        return f"run {run.run_id} ended with step {step} ({end}); expected an earlier one"
    return None


def _nobody(request: Request) -> Completion:
    raise ModelFailure("unavailable", "the record ends here")


def _nothing(call: ToolUse) -> Reply:
    raise AssertionError("unreachable: no answer is given beyond the record")


def _of_calls(run: Recorded, seen: list[Event]) -> Iterator[Difference]:
    """Calls that were answered in one of the two alone, or in another way."""
    mine = {(each.step, each.number): Done(each.call, each.reply) for each in seen if isinstance(each, Acted)}
    if run.end in _CUT_SHORT:  # what its last reply called for was not answered, and is so now
        mine = {place: done for place, done in mine.items() if place in run.done or place[0] < run.steps}
    yield from _between(
        mine, run.done, lambda done: f"{done.call.name} {done.call.input}: {done.reply}", "{0[0]}.{0[1]}"
    )


def _of_arguments(run: Recorded, tools: Mapping[str, ToolSpec]) -> Iterator[Difference]:
    """Calls that this version would refuse, or would not refuse any more."""
    for (step, number), done in sorted(run.done.items()):
        if done.reply.error_code in ("not_run", "cut_short"):
            continue
        tool = tools.get(done.call.name)
        now = problem_with_input(tool, done.call.input) if tool else f"no such tool: {done.call.name!r}"
        refused = done.reply.error_code in ("unknown_tool", "invalid_arguments")
        if bool(now) is not refused:
            was = done.reply.content if refused else "the call was carried out"
            yield Difference(f"{step}.{number}", was[:SHOWN_CHARS], (now or "the call fits")[:SHOWN_CHARS])


def _of_words(run: Recorded, seen: list[Event]) -> Iterator[Difference]:
    mine = {each.step: each.text for each in seen if isinstance(each, Told)}
    if run.end in _CUT_SHORT and run.steps not in run.told:
        mine.pop(run.steps, None)
    yield from _between(mine, {step: words.text for step, words in run.told.items()}, str, "{0}")


def _of_end(run: Recorded, outcome: Outcome) -> Iterator[Difference]:
    goes_on = outcome.end is End.MODEL_FAILURE  # the record had no further answer
    if run.end == End.AWAITING_APPROVAL.value and outcome.end in (End.COMPLETED, End.STUCK):
        return  # that somebody is waited for is not told by the conversation
    if run.end in (*_CUT_SHORT, outcome.end.value) or (goes_on and run.end in {end.value for end in OUTSIDE}):
        return
    yield Difference("end", run.end, "it goes on" if goes_on else outcome.end.value)


def _between(
    mine: Mapping[_Key, _Value], theirs: Mapping[_Key, _Value], shown: Callable[[_Value], str], where: str
) -> Iterator[Difference]:
    for key in sorted(mine.keys() | theirs.keys()):
        if mine.get(key) != theirs.get(key):
            was, now = (shown(side[key])[:SHOWN_CHARS] if key in side else "nothing" for side in (theirs, mine))
            yield Difference(where.format(key), was, now)
