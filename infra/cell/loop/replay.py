"""A recorded run once more, without a model and without tools: what would this version's loop have made of the same
replies and results? What a tool of this version would do is not asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from infra.cell.actions import Respond, ToolCall
from infra.cell.loop.loop import MAY_AWAIT
from infra.cell.loop.progress import RunConfig, stop_reason
from infra.cell.loop.record import Acted, Answered, Ended, Line, Standing, Told, standing
from infra.cell.run_states import StopReason

OUTSIDE = ("", *(each.value for each in (StopReason.MAX_WALL_TIME, StopReason.MODEL_UNAVAILABLE)))
OUTSIDE += tuple(each.value for each in (StopReason.INTERRUPTED, StopReason.NOT_RECORDED))
"""Ends that do not follow from the conversation."""
GOES_ON, SHOWN_CHARS = "it goes on", 200


class Difference(NamedTuple):
    """Something that goes another way."""

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
    """The first one, as what follows it is another run; none when all goes as it did."""


def replay(lines: Sequence[Line]) -> Replay:
    """Raises ValueError when these are not the lines of one run."""
    end = standing(lines).end
    run = Standing(lines[0])  # type: ignore[arg-type]
    found = list[Difference]()
    played = 0
    for line in lines[1:]:
        match line:
            case Answered():
                found += _between(line.step_id, GOES_ON, _reason(run))
            case Acted():
                call = run.calls[line.number - 1]
                found += _between(line.step_id, _shown(line.call), _shown(call))
            case Told():
                found += _between(line.step_id, line.own, run.judged()[1])
            case Ended(end=was) if was not in OUTSIDE:
                now = _reason(run)
                waits = was == StopReason.AWAITING_APPROVAL.value and now in [each.value for each in MAY_AWAIT]
                found += _between("end", was, was if waits else now)
        played += isinstance(line, Answered | Acted | Told)
        run.add(line)
    return Replay(played, end if end in OUTSIDE else _reason(run), tuple(found[:1]))


def _reason(run: Standing) -> str:
    """Why a run that stands so ends."""
    if run.hands_over:
        return StopReason.HANDED_OVER.value
    if isinstance(run.action, Respond) and not run.action.advice:
        return run.action.reason.value
    config = RunConfig(run.opened.most_steps or run.steps + 1, 1.0)
    reason = stop_reason(config, run.progress, run.steps, 0.0)
    return reason.value if reason else GOES_ON


def _shown(call: ToolCall) -> str:
    return f"{call.name} {dict(call.args)}"


def _between(where: str, recorded: str, replayed: str) -> list[Difference]:
    same = recorded == replayed
    return [] if same else [Difference(where, recorded[:SHOWN_CHARS], replayed[:SHOWN_CHARS])]
