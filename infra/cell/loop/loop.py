"""The bounded loop: ask the model, carry out what it asks for, give it the results, until it ends its turn.

`run_task` is `plan` and `step` in turn. A run is in one `RunState` at a time and ends for one `StopReason`, never by
an exception of the model or of a tool. The clock is an argument; what the conversation is about is the caller's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

from infra.cell.actions import AssistantAction, Respond, ToolCalls, ToolResult
from infra.cell.doors import ModelFailure
from infra.cell.interruption import Interrupted
from infra.cell.loop.context import Context, Room
from infra.cell.loop.progress import RunConfig, stop_reason
from infra.cell.loop.record import (
    Acted,
    Acting,
    Answered,
    Entered,
    Line,
    NotRecorded,
    Opened,
    Standing,
    Told,
    args_hash,
)
from infra.cell.loop.ways import News
from infra.cell.run_states import RunState, StopReason
from infra.cell.tools.tool import Dispatch
from infra.shared.boot import TOOLS
from infra.shared.conversation import Completion, Request

MAY_AWAIT: Final = (StopReason.COMPLETED, StopReason.NO_OP_LOOP, StopReason.MAX_FAILURES, StopReason.POLICY_DENIED)
"""A run that stands still while an act of it waits for somebody's word, waits for that word."""
NOT_BEGUN = "not run: the process that was to carry this out ended first; call again for what is still to be done"
NOT_RUN = "not run: a call before it in the same reply ended this run"
NO_TIME = "not run: the time for this run is over"
UNKNOWN = (
    "the process that carried this out ended before it was done, and everything it had started ended with it; how far "
    "it came is unknown: look before you do it again"
)


class Task(NamedTuple):
    """What a run is about."""

    request: Request
    """Opens the conversation."""
    acts: str = TOOLS
    """How the model asks for acts: a name of WAYS."""
    before: Standing | None = None
    """Where its record says that it stands, when it is resumed."""


class RunResult(NamedTuple):
    """How a run ended."""

    reason: StopReason
    text: str = ""
    """The model's last words; for NOT_RECORDED, why first."""
    steps: int = 0
    """Replies of the model."""
    failure: ModelFailure | None = None
    """Of the last call, for MODEL_UNAVAILABLE."""


class TaskContext(NamedTuple):
    """All of the world that a run touches."""

    complete: Callable[[Request], Completion]
    """Asks the model. Raises ModelFailure or Interrupted and nothing else."""
    dispatch: Dispatch
    news: Callable[[], News] = News
    """Words for the model between two steps."""
    record: Callable[[Line], None] = lambda line: None
    """Raises NotRecorded, but for the last state, which ends the run."""
    awaits: Callable[[], bool] = lambda: False
    """Whether a call waits for somebody's word."""
    room: Room = Room()
    """How long the conversation may be."""
    monotonic: Callable[[], float] = time.monotonic


class RunContext(NamedTuple):
    """A run as it stands."""

    config: RunConfig
    context: TaskContext
    standing: Standing
    conversation: Context
    began: float

    @property
    def seconds(self) -> float:
        return self.context.monotonic() - self.began

    def enter(self, state: RunState) -> None:
        self.context.record(Entered(str(self.standing.steps + (state is RunState.PLAN)), state))

    def add(self, line: Line) -> None:
        """It happens: once it is on record, the run stands so."""
        self.context.record(line)
        self.standing.add(line)


def run_task(task: Task, config: RunConfig, context: TaskContext) -> RunResult:
    """Carry on the conversation that the task opens, or its record, until it ends."""
    conversation = Context(context.complete, task.request, context.room)
    standing, reason, failure, problem = task.before or Standing(Opened(task.request, task.acts)), None, None, ""
    run_ctx = RunContext(config, context, standing, conversation, context.monotonic())
    try:
        run_ctx.enter(RunState.INIT)
        if standing.action:  # another runner left this step, of which nothing is done twice
            _close(run_ctx)
            reason = step(run_ctx, standing.action)
        elif standing.steps:
            _tell(run_ctx)
        while reason is None:
            reason = stop_reason(config, standing.progress, standing.steps, run_ctx.seconds)
            reason = reason or step(run_ctx, plan(run_ctx))
    except ModelFailure as error:
        reason, failure = StopReason.MODEL_UNAVAILABLE, error
    except NotRecorded as error:
        reason, problem = StopReason.NOT_RECORDED, str(error)
    except Interrupted:
        reason = StopReason.INTERRUPTED
    if reason in MAY_AWAIT and context.awaits():
        reason = StopReason.AWAITING_APPROVAL
    run_ctx.enter(RunState.ERROR if failure else RunState.STOP)
    return RunResult(reason, f"{problem}\n\n{standing.text}".strip(), standing.steps, failure)


def plan(run_ctx: RunContext) -> AssistantAction:
    """Ask the model what to do next. Raises ModelFailure, NotRecorded, Interrupted."""
    run_ctx.enter(RunState.PLAN)
    completion = run_ctx.conversation.ask(run_ctx.standing.messages, run_ctx.add)
    run_ctx.add(Answered(str(run_ctx.standing.steps + 1), completion))
    return run_ctx.standing.action or Respond("")


def step(run_ctx: RunContext, action: AssistantAction) -> StopReason | None:
    """Do what the last reply asks for, and put what came of it into the conversation. Gives why the run ends with it;
    None when it may go on. Raises NotRecorded, Interrupted."""
    if isinstance(action, ToolCalls):
        run_ctx.enter(RunState.EXECUTE_TOOL)
        _carry_out(run_ctx, action)
    elif action.reason is StopReason.COMPLETED:
        run_ctx.enter(RunState.RESPOND)
    if run_ctx.standing.ends_for is None:
        _tell(run_ctx)
    return run_ctx.standing.ends_for


def _close(run_ctx: RunContext) -> None:
    """Calls that another runner left without a result get one."""
    standing = run_ctx.standing
    for number, call in [*enumerate(standing.calls, 1)][len(standing.results) :]:
        begun = number == standing.begun
        result = ToolResult.err("cut_short", UNKNOWN) if begun else ToolResult.err("not_run", NOT_BEGUN)
        run_ctx.add(Acted.of(f"{standing.steps}.{number}", call, result, 0.0))


def _carry_out(run_ctx: RunContext, action: ToolCalls) -> None:
    """The calls that have no result yet, in order; behind one that hands over nothing is done."""
    standing = run_ctx.standing
    for number, call in [*enumerate(action.calls, 1)][len(standing.results) :]:
        step_id, began = f"{standing.steps}.{number}", run_ctx.seconds
        if standing.hands_over or began >= run_ctx.config.max_wall_time:
            result = ToolResult.err("not_run", NOT_RUN if standing.hands_over else NO_TIME)
        else:
            run_ctx.add(Acting(step_id, call.name, args_hash(call.args)))
            result = run_ctx.context.dispatch(call)
        run_ctx.add(Acted.of(step_id, call, result, run_ctx.seconds - began))


def _tell(run_ctx: RunContext) -> None:
    """The next message to the model."""
    run_ctx.enter(RunState.OBSERVE)
    news, (_, own) = run_ctx.context.news(), run_ctx.standing.judged()
    if run_ctx.standing.action or any(news):
        run_ctx.add(Told(str(run_ctx.standing.steps), own, *news))
