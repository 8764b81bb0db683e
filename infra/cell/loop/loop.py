"""The bounded loop: ask the model, carry out its tool calls, give it the results, until it ends its turn.

It ends for one of the reasons of `End` and never by an exception of the model or of a tool. The clock is an argument;
what the conversation is about is the caller's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from infra.cell.loop.context.context import Context, OutOfRoom, Room, Summarised, Trimmed
from infra.cell.loop.interruption import Interrupted
from infra.cell.loop.progress import MAX_FAILURES, NO_OP_LOOP, Effects, Progress, fingerprint, has_failed, words_on
from infra.cell.loop.registry import Dispatcher, Reply
from infra.cell.loop.ways import COMPLETED, ENDED_BY, INVALID_REPLIES, ByTools, Ends, NoActs, Way
from infra.cell.model_client import ModelFailure
from infra.shared.conversation import MAX_TOKENS as TOKENS
from infra.shared.conversation import REFUSAL as REFUSED
from infra.shared.conversation import Completion, Message, Request, ToolUse


class End(Enum):
    """Why a run of the loop ended."""

    COMPLETED = COMPLETED
    """The model ended its turn with words."""
    HANDED_OVER = "handed over"
    """It asked for another version of the agent."""
    MAX_STEPS = "max steps"
    MAX_SECONDS = "max seconds"
    MAX_TOKENS = ENDED_BY[TOKENS]
    """Its replies were cut, or called for a tool without naming one, again and again."""
    REFUSAL = ENDED_BY[REFUSED]
    INVALID_REPLIES = INVALID_REPLIES
    """Its replies asked for acts in a form that nobody can carry out, again and again."""
    STUCK = "stuck"
    """It made the same calls with the same results again and again."""
    NO_OP_LOOP = NO_OP_LOOP
    """Step after step without any effect."""
    MAX_FAILURES = MAX_FAILURES
    """Call after call failed."""
    BUDGET = "budget"
    """The next call could have passed what one run may cost."""
    CONTEXT = "context"
    """The conversation has no room left; its hand-over is the outcome's text."""
    AWAITING_APPROVAL = "awaiting approval"
    """A call of it waits for the PM's word."""
    MODEL_FAILURE = "model failure"
    INTERRUPTED = "interrupted"


class Bounds(NamedTuple):
    steps: int
    """Model calls."""
    seconds: float
    """Looked at before each call of model or tool; the last of them may pass it by its own limit."""


class Outcome(NamedTuple):
    end: End
    text: str = ""
    """The model's last words; for CONTEXT, what it hands over."""
    steps: int = 0
    failure: ModelFailure | None = None
    """Of the last call, for MODEL_FAILURE and BUDGET."""


class Answered(NamedTuple):
    """The model answered."""

    step: int
    completion: Completion
    seconds: float


class Acting(NamedTuple):
    """A tool call is about to be carried out."""

    step: int
    number: int
    call: ToolUse


class Acted(NamedTuple):
    """A tool call has its result."""

    step: int
    number: int
    """Of the call in its reply, from 1."""
    call: ToolUse
    reply: Reply
    seconds: float


class Told(NamedTuple):
    """Words for the model beside the results of a step."""

    step: int
    text: str
    steered: str
    """The part of it that is the caller's news, not the loop's own."""


class Idle(NamedTuple):
    """The results of a step were known, and no file and no commit came of it."""

    step: int


Event = Answered | Acting | Acted | Told | Idle | Trimmed | Summarised


class Hooks(NamedTuple):
    """What a caller adds to a run of the loop; the defaults add nothing."""

    news: Callable[[], str | None] = lambda: None
    """Words for the model between two steps, if there are any."""
    record: Callable[[Event], None] = lambda event: None
    changed: Callable[[], bool] = lambda: True
    """Whether a file or a commit came of this step; asked only when its results do not tell."""
    awaits: Callable[[], bool] = lambda: False
    """Whether a call waits for somebody's word."""
    room: Room | None = None
    """How long the conversation may be; None: without end."""
    monotonic: Callable[[], float] = time.monotonic


SAME_TO_TELL, SAME_TO_END = 4, 8
"""Steps in a row with the same calls and the same results: the model is told, and then the run ends."""
SAME = (
    f"You have made the same calls {SAME_TO_TELL} times in a row, with the same results. Do something else: look for "
    "the cause, try another way, or end your turn and say what is missing. If you wait for something, wait longer."
)
NOT_RUN = "not run: a call before it in the same reply ended this run"
NO_TIME = "not run: the time for this run is over"


def run(
    complete: Callable[[Request], Completion],
    request: Request,
    toolbox: Dispatcher,
    bounds: Bounds,
    hooks: Hooks = Hooks(),  # noqa: B008 - frozen
    new_way: Callable[[], Way] = ByTools,
) -> Outcome:
    """Carry on the conversation that `request` opens until it ends.

    `complete` raises ModelFailure or Interrupted and nothing else."""
    record, monotonic = hooks.record, hooks.monotonic
    context = Context(complete, request, hooks.room, monotonic, record)
    until = monotonic() + bounds.seconds
    way, text, step = new_way(), "", 0
    last, same = None, 0
    progress = Progress()

    def answered(step: int, calls: Sequence[ToolUse], replies: Sequence[Reply], own: str) -> Message:
        nonlocal progress
        steered = hooks.news() or ""
        progress = progress.heard() if steered else progress
        words = "\n\n".join(filter(None, (own, steered)))
        if words:
            record(Told(step, words, steered))
        return Message("user", way.answer(calls, replies, own, steered))

    try:
        for step in range(1, bounds.steps + 1):
            if monotonic() < until:
                context.make_room(step)
            asked_at = monotonic()
            if asked_at >= until:
                return Outcome(End.MAX_SECONDS, text, step - 1)
            completion = context.ask(step)
            record(Answered(step, completion, monotonic() - asked_at))
            asked = way.asked(completion)
            text = asked.text
            if isinstance(asked, Ends):
                end = End(asked.end)
                awaits = end is End.COMPLETED and hooks.awaits()
                return Outcome(End.AWAITING_APPROVAL if awaits else end, text, step)
            context.append(asked.said)
            if isinstance(asked, NoActs):
                context.append(answered(step, (), (), asked.advice))
                continue
            calls = asked.calls
            replies, handed_over = _act(calls, toolbox, step, until, monotonic, record)
            if handed_over:
                return Outcome(End.HANDED_OVER, text, step)
            effect = [(call.name, call.input, reply.content) for call, reply in zip(calls, replies, strict=True)]
            last, same = effect, same + 1 if effect == last else 1
            if same == SAME_TO_END:
                return Outcome(End.AWAITING_APPROVAL if hooks.awaits() else End.STUCK, text, step)
            before, progress = progress, _with_step(progress, calls, replies, step, hooks)
            if progress.stop:
                return Outcome(End.AWAITING_APPROVAL if hooks.awaits() else End(progress.stop), text, step)
            words = filter(None, (SAME if same == SAME_TO_TELL else "", words_on(before, progress)))
            context.append(answered(step, calls, replies, "\n\n".join(words)))
        return Outcome(End.MAX_STEPS, text, step)
    except ModelFailure as failure:
        if failure.type == "unit_budget_exhausted" and step > 1:  # else nothing was done that could be told
            return Outcome(End.BUDGET, text, step - 1, failure)
        return Outcome(End.MODEL_FAILURE, text, step, failure)
    except OutOfRoom as over:
        return Outcome(End.CONTEXT, str(over), step - 1)
    except Interrupted:
        return Outcome(End.INTERRUPTED, text, step)


def _act(
    calls: Sequence[ToolUse],
    toolbox: Dispatcher,
    step: int,
    until: float,
    monotonic: Callable[[], float],
    record: Callable[[Event], None],
) -> tuple[tuple[Reply, ...], bool]:
    """Answer the calls of one reply in order; True when one of them handed over."""
    replies = []
    handed_over = False
    for number, call in enumerate(calls, 1):
        started_at = monotonic()
        if handed_over or started_at >= until:
            reply = Reply(NOT_RUN if handed_over else NO_TIME, is_error=True, error_code="not_run")
        else:
            record(Acting(step, number, call))
            reply = toolbox.call(call)
            handed_over = reply.hands_over
        record(Acted(step, number, call, reply, monotonic() - started_at))
        replies.append(reply)
    return tuple(replies), handed_over


def _with_step(
    progress: Progress, calls: Sequence[ToolUse], replies: Sequence[Reply], step: int, hooks: Hooks
) -> Progress:
    shown = tuple(fingerprint(call.name, reply) for call, reply in zip(calls, replies, strict=True))
    changed = progress.shows_news(shown) or hooks.changed()
    if not changed:
        hooks.record(Idle(step))
    return progress.after(Effects(shown, tuple(map(has_failed, replies)), changed))
