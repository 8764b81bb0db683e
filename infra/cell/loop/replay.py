"""A recorded run once more, without a model and without tools: what would this version's loop have made of the same
replies and results? What a tool of this version would do is not asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from infra.cell.actions import ToolCall
from infra.cell.loop.loop import MAY_AWAIT
from infra.cell.loop.progress import RunConfig, stop_reason
from infra.cell.loop.record import Acted, Answered, Ended, Line, Standing, Told, standing
from infra.cell.run_states import StopReason

OUTSIDE = (
    *("", StopReason.MAX_WALL_TIME.value, StopReason.MODEL_UNAVAILABLE.value),
    *(StopReason.INTERRUPTED.value, StopReason.NOT_RECORDED.value),
)
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
    found, played = list[Difference](), 0
    for line in lines[1:]:
        where, recorded, replayed = "", "", ""
        match line:
            case Answered():
                where, recorded, replayed = line.step_id, GOES_ON, _reason(run)
            case Acted():
                where, recorded, replayed = line.step_id, _shown(line.call), _shown(run.calls[line.number - 1])
            case Told():
                where, recorded, replayed = line.step_id, line.own, run.judged()[1]
            case Ended(end=was) if was not in OUTSIDE:
                where, recorded, replayed = "end", was, _reason(run)
                if was == StopReason.AWAITING_APPROVAL.value and replayed in [each.value for each in MAY_AWAIT]:
                    replayed = was
        if recorded != replayed:
            found.append(Difference(where, recorded[:SHOWN_CHARS], replayed[:SHOWN_CHARS]))
        played += isinstance(line, Answered | Acted | Told)
        run.add(line)
    return Replay(played, end if end in OUTSIDE else _reason(run), tuple(found[:1]))


def _reason(run: Standing) -> str:
    """Why a run that stands so ends."""
    config = RunConfig(run.opened.most_steps or run.steps + 1, 1.0)
    reason = run.ends_for or stop_reason(config, run.progress, run.steps, 0.0)
    return reason.value if reason else GOES_ON


def _shown(call: ToolCall) -> str:
    return f"{call.name} {dict(call.args)}"
