"""The bounded loop: ask the model, carry out what it asks for, give it the results, until it ends its turn.

`run_task` is `plan` and `step` in turn. A run is in one `RunState` at a time and ends for one `StopReason`, never by
an exception of the model or of a tool. The clock is an argument; what the conversation is about is the caller's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from infra.cell.actions import AssistantAction, Respond, ToolCall, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.interruption import Interrupted
from infra.cell.loop.context.context import Context, Room, Summarised
from infra.cell.loop.progress import Progress, RunConfig, stop_reason, words_on
from infra.cell.loop.ways import WAYS
from infra.cell.run_states import RunState, StopReason
from infra.cell.tools.tool import Dispatch
from infra.shared.boot import TOOLS
from infra.shared.conversation import Completion, Message, Request

TRANSITIONS: Final[Mapping[RunState, frozenset[RunState]]] = {
    RunState.INIT: frozenset((RunState.PLAN, RunState.STOP)),
    RunState.PLAN: frozenset(
        (RunState.EXECUTE_TOOL, RunState.OBSERVE, RunState.RESPOND, RunState.STOP, RunState.ERROR)
    ),
    RunState.EXECUTE_TOOL: frozenset((RunState.OBSERVE, RunState.STOP)),
    RunState.OBSERVE: frozenset((RunState.PLAN, RunState.STOP)),
    RunState.RESPOND: frozenset((RunState.STOP,)),
    RunState.STOP: frozenset(),
    RunState.ERROR: frozenset(),
}
MAY_AWAIT: Final = (
    *(StopReason.COMPLETED, StopReason.NO_OP_LOOP),
    *(StopReason.MAX_FAILURES, StopReason.POLICY_DENIED),
)
"""A run that stands still while an act of it waits for somebody's word, waits for that word."""


class Task(NamedTuple):
    """What a run is about."""

    request: Request
    """Opens the conversation."""
    acts: str = TOOLS
    """How the model asks for acts: a name of WAYS."""


class RunResult(NamedTuple):
    """How a run ended."""

    reason: StopReason
    text: str = ""
    """The model's last words; for NOT_RECORDED, why first."""
    steps: int = 0
    """Replies of the model."""
    failure: ModelFailure | None = None
    """Of the last call, for MODEL_UNAVAILABLE."""


class StepResult(NamedTuple):
    """What came of one action."""

    results: tuple[ToolResult, ...] = ()
    """Of its calls, in order."""
    reason: StopReason | None = None
    """Why the run ends with it; None when it may go on."""


class Entered(NamedTuple):
    """The run is in another state."""

    step: int
    state: RunState


class Answered(NamedTuple):
    """The model answered."""

    step: int
    completion: Completion
    seconds: float


class Acting(NamedTuple):
    """A call is about to be carried out."""

    step: int
    number: int
    call: ToolCall


class Acted(NamedTuple):
    """A call has its result."""

    step: int
    number: int
    """Of the call in its reply, from 1."""
    call: ToolCall
    result: ToolResult
    seconds: float


class Told(NamedTuple):
    """Words for the model beside the results of a step."""

    step: int
    text: str
    steered: str
    """The part of it that is the caller's news, not the loop's own."""


Event = Entered | Answered | Acting | Acted | Told | Summarised


class NotRecorded(Exception):
    """What the run does cannot be written down, and must be; says why."""


class TaskContext(NamedTuple):
    """All of the world that a run touches."""

    complete: Callable[[Request], Completion]
    """Asks the model. Raises ModelFailure or Interrupted and nothing else."""
    dispatch: Dispatch
    news: Callable[[], str | None] = lambda: None
    """Words for the model between two steps, if there are any."""
    record: Callable[[Event], None] = lambda event: None
    """Raises NotRecorded, for whatever happens in a step, which ends the run."""
    awaits: Callable[[], bool] = lambda: False
    """Whether a call waits for somebody's word."""
    room: Room | None = None
    """How long the conversation may be; None: without end."""
    monotonic: Callable[[], float] = time.monotonic


NOT_RUN = "not run: a call before it in the same reply ended this run"
NO_TIME = "not run: the time for this run is over"


class RunContext:
    """A run as it stands."""

    def __init__(self, task: Task, config: RunConfig, context: TaskContext) -> None:
        self.config, self.context = config, context
        self.way = WAYS[task.acts]()
        self.conversation = Context(context.complete, task.request, context.room, context.monotonic, context.record)
        self.progress = Progress()
        self.step = self.steps = 0
        """The step under way, and the replies of the model so far."""
        self.text = ""
        """The model's last words."""
        self.state = RunState.INIT
        self._began = context.monotonic()
        context.record(Entered(0, self.state))

    @property
    def seconds(self) -> float:
        return self.context.monotonic() - self._began

    def enter(self, state: RunState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"a run in state {self.state.value} cannot enter {state.value}")
        self.state = state
        self.context.record(Entered(self.step, state))


def run_task(task: Task, config: RunConfig, context: TaskContext) -> RunResult:
    """Carry on the conversation that the task opens until it ends."""
    run_ctx = RunContext(task, config, context)
    result = _until_it_ends(run_ctx)
    run_ctx.enter(RunState.ERROR if result.reason is StopReason.MODEL_UNAVAILABLE else RunState.STOP)
    return result


def _until_it_ends(run_ctx: RunContext) -> RunResult:
    reason: StopReason | None = None
    try:
        while reason is None:
            reason = stop_reason(run_ctx.config, run_ctx.progress, run_ctx.steps, run_ctx.seconds)
            reason = reason or step(run_ctx, plan(run_ctx)).reason
    except ModelFailure as failure:
        return RunResult(StopReason.MODEL_UNAVAILABLE, run_ctx.text, run_ctx.steps, failure)
    except NotRecorded as problem:
        words = "\n\n".join(filter(None, (str(problem), run_ctx.text)))
        return RunResult(StopReason.NOT_RECORDED, words, run_ctx.steps)
    except Interrupted:
        return RunResult(StopReason.INTERRUPTED, run_ctx.text, run_ctx.steps)
    if reason in MAY_AWAIT and run_ctx.context.awaits():
        reason = StopReason.AWAITING_APPROVAL
    return RunResult(reason, run_ctx.text, run_ctx.steps)


def plan(run_ctx: RunContext) -> AssistantAction:
    """Ask the model what to do next. Raises ModelFailure, Interrupted."""
    run_ctx.step += 1
    run_ctx.enter(RunState.PLAN)
    run_ctx.conversation.make_room(run_ctx.step)
    asked_at = run_ctx.seconds
    completion = run_ctx.conversation.ask(run_ctx.step)
    run_ctx.steps = run_ctx.step
    run_ctx.context.record(Answered(run_ctx.step, completion, run_ctx.seconds - asked_at))
    action, said = run_ctx.way.asked(completion)
    run_ctx.text = action.text
    run_ctx.conversation.append(said)
    return action


def step(run_ctx: RunContext, action: AssistantAction) -> StepResult:
    """Do what the model asks for, and put what came of it into the conversation. Raises Interrupted."""
    if isinstance(action, Respond):
        if action.advice:
            run_ctx.enter(RunState.OBSERVE)
            _tell(run_ctx, (), (), action.advice)
            return StepResult()
        if action.reason is StopReason.COMPLETED:
            run_ctx.enter(RunState.RESPOND)
        return StepResult(reason=action.reason)
    run_ctx.enter(RunState.EXECUTE_TOOL)
    results = _carry_out(run_ctx, action.calls)
    if any(result.hands_over for result in results):
        return StepResult(results, StopReason.HANDED_OVER)
    run_ctx.enter(RunState.OBSERVE)
    before, run_ctx.progress = run_ctx.progress, run_ctx.progress.after(action.calls, results)
    _tell(run_ctx, action.calls, results, words_on(before, run_ctx.progress))
    return StepResult(results)


def _carry_out(run_ctx: RunContext, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
    """The results of the calls of one reply, in order; behind one that hands over nothing is done."""
    record, results = run_ctx.context.record, list[ToolResult]()
    handed_over = False
    for number, call in enumerate(calls, 1):
        began = run_ctx.seconds
        if handed_over or began >= run_ctx.config.max_wall_time:
            result = ToolResult.err("not_run", NOT_RUN if handed_over else NO_TIME)
        else:
            record(Acting(run_ctx.step, number, call))
            result = run_ctx.context.dispatch(call)
            handed_over = result.hands_over
        record(Acted(run_ctx.step, number, call, result, run_ctx.seconds - began))
        results.append(result)
    return tuple(results)


def _tell(run_ctx: RunContext, calls: Sequence[ToolCall], results: Sequence[ToolResult], own: str) -> None:
    """The next message to the model."""
    steered = run_ctx.context.news() or ""
    if steered:
        run_ctx.progress = run_ctx.progress.heard()
    words = "\n\n".join(filter(None, (own, steered)))
    if words:
        run_ctx.context.record(Told(run_ctx.step, words, steered))
    run_ctx.conversation.append(Message("user", run_ctx.way.answer(calls, results, own, steered)))
