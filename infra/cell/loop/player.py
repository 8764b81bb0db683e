"""Playing a recorded run to the loop, so that it stands where the run stood; then the run continues with real calls.

The loop itself is run over the record, so every count that it keeps is what it was. Nothing is done twice: a call that
was begun and not answered has an answer that says so, and the calls behind it in the same reply are not run."""

from __future__ import annotations

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.context.context import Summarised
from infra.cell.loop.loop import Acted, Entered, Event, TaskContext, Told
from infra.cell.loop.recorded import Recorded
from infra.cell.loop.ways import news_of
from infra.cell.run_states import RunState
from infra.shared.conversation import Completion, Request

UNKNOWN = (
    "the process that carried this out ended before it was done, and everything it had started ended with it; how far "
    "it came is unknown: look before you do it again"
)
NOT_BEGUN = "not run: the process that was to carry this out ended first; call again for what is still to be done"


class Player:
    """The record first, then what is given here; `context` is what `run_task` takes."""

    def __init__(self, run: Recorded, live: TaskContext, opening: str = "") -> None:
        """`opening` is what the model is told at the end of the record."""
        self._run = run
        self._live = live
        self._opening = opening
        self._step = self._number = 0
        self.context = live._replace(
            complete=self._complete,
            dispatch=self._dispatch,
            news=self._news,
            record=self._record,
            room=live.room and live.room._replace(recall=self._summary, ask=live.complete),
        )

    def _complete(self, request: Request) -> Completion:
        self._step, self._number = self._step + 1, 0
        if self._step <= self._run.steps:
            return self._run.completions[self._step - 1]
        return self._live.complete(request)

    def _dispatch(self, call: ToolCall) -> ToolResult:
        self._number += 1
        if self._step > self._run.steps:
            return self._live.dispatch(call)
        place = (self._step, self._number)
        if place in self._run.done:
            return self._run.done[place].result
        begun = place in self._run.begun
        return ToolResult.err("cut_short", UNKNOWN) if begun else ToolResult.err("not_run", NOT_BEGUN)

    def _news(self) -> str | None:
        if self._step > self._run.steps:
            return self._live.news()
        told = self._run.told.get(self._step)
        steered = told.steered if told else ""
        if self._step == self._run.steps:
            steered = news_of(steered, self._opening, self._live.news())
        return steered or None

    def _summary(self, step: int) -> str | None:
        return self._run.summaries.get(step)

    def _record(self, event: Event) -> None:
        if not self._is_on_record(event):
            self._live.record(event)

    def _is_on_record(self, event: Event) -> bool:
        match event:
            case Entered(step=step, state=state) if state is not RunState.PLAN:
                return step < self._run.steps
            case Told(step=step):
                return step < self._run.steps
            case Summarised(step=step):
                return step in self._run.summaries
            case Acted(step=step, number=number):
                return (step, number) in self._run.done
        return event.step <= self._run.steps
