"""Writes a run's events, from what the loop did; the model has no part in it.

The keep has the log: events are sent to it before each step and at the end. When it takes none for a minute, the run
ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from infra.cell.loop.loop import Acted, Answered, Entered, Event, NotRecorded, RunResult, Told
from infra.cell.loop.registry import Position
from infra.cell.loop.ways import News
from infra.cell.mind import acts
from infra.cell.mind.notes import SHOWN
from infra.cell.mind.outbox import Record, outbox_of
from infra.cell.run_states import RunState
from infra.shared.mind.event import EventContext, EventMetadata, EventType, Execution, MindEvent, Outcomes
from infra.shared.secret_shapes import redacted_and_cut

DIRECTIVE_CHARS, END_CHARS = 1000, 1000
MOST_IDS = 100
BEGAN, WENT_ON, SAID = "began", "went on", "said"
"""Statuses of a task; others are reasons for which runs end."""


class Recorder:
    """Of one run, in the mind at `root`. No method raises but NotRecorded, and that `record` alone."""

    def __init__(
        self,
        root: str,
        checkout: str,
        position: Position,
        record: Record,
        note: Callable[..., object],
        shown: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`record` and `note` as in MindContext. `shown`: ids of what was placed before the run."""
        self._outbox, self._send_to = outbox_of(root), record
        self._checkout = checkout
        self._position = position
        self._note = note
        self._has_begun = False
        self._resumed = False
        self._ids: tuple[str, ...] = ()
        self._words = ""
        self._shown = shown
        self._model, self._tokens, self._intent, self._skill = "", 0, "", ""
        self._spend = 0.0
        self.label = "task"
        self.written = 0

    def begin(self, words: str, ids: Sequence[str] = (), resumed: bool = False) -> None:
        """The PM's words that the run is about, and the ids of its directives or tasks."""
        self._words, self._ids, self._resumed = words, tuple(ids[:MOST_IDS]), resumed

    def spent(self, usd: float) -> None:
        """Of the exploration budget, since the event before."""
        self._spend += usd

    def record(self, event: Event) -> None:
        """Raises NotRecorded."""
        if isinstance(event, Entered) and event.state is not RunState.PLAN:
            return
        if not self._has_begun:  # a resumed run may begin with an act that was cut short
            self._has_begun = True
            status = WENT_ON if self._resumed else BEGAN
            shown = list(self._shown()[: acts.MOST_SHOWN])
            self.task(status, redacted_and_cut(self._words, DIRECTIVE_CHARS), {SHOWN: shown})
        match event:
            case Entered():
                self._send()
            case Answered(_, completion):
                self._model = completion.model
                used = completion.usage
                self._tokens = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens
                self._intent = acts.intent_of(completion.text)
            case Told(steered=News(pm=words)) if words:
                self.task(SAID, redacted_and_cut(words, DIRECTIVE_CHARS), {})
            case Acted():
                self._acted(event)

    def task(self, status: str, words: str, details: dict[str, Any]) -> None:
        """The run, a directive or a task is in another state."""
        about = {"directives": list(self._ids)} | {name: value for name, value in details.items() if value}
        self._write(self._event("task_update", "", Outcomes(observations=words), "", status, about))

    def end(self, result: RunResult) -> None:
        """The run is over, and the keep has its events; those that it does not take wait for the next run."""
        if not self._has_begun:
            return
        words = redacted_and_cut(result.text, END_CHARS)
        self.task(result.reason.value, words, {"steps": result.steps, "failure": str(result.failure or "")})
        try:
            self._send()
        except NotRecorded as problem:
            self._note("mind.end_not_recorded", error=str(problem))
        self._note("mind.events_written", events=self.written)

    def _send(self) -> None:
        """Raises NotRecorded."""
        try:
            self._outbox.send(self._send_to)
        except OSError as error:
            self._note("mind.events_wait", error=str(error))
            if self._outbox.is_late:
                raise NotRecorded(
                    f"the keep takes no events: {error}. What is not on record is not done: the PM looks at doors.log "
                    "(minifram doctor)"
                ) from error

    def _acted(self, event: Acted) -> None:
        call, result = event.call, event.result
        found = acts.told(call, result, event.seconds, self._checkout)
        step = f"{event.step}.{event.number}"
        made = self._event(found.type, step, found.outcomes, call.name, result.status, found.details, found.execution)
        self._write(made)
        self._skill = acts.skill_of(call, result) or self._skill

    def _event(
        self,
        type: EventType,
        step: str,
        outcomes: Outcomes,
        tool: str,
        status: str,
        details: dict[str, Any],
        execution: Execution | None = None,
    ) -> MindEvent:
        metadata = EventMetadata(
            llm_model=self._model,
            context_tokens=self._tokens,
            curiosity_spend=self._spend,
            label=self.label,
            tool=tool[: acts.ARGUMENT_CHARS],
            status=status,
            details=details,
        )
        about = EventContext(self._ids[0] if self._ids else None, self._skill or None, self._intent if step else "")
        return MindEvent(type, about, execution or Execution(), outcomes, metadata, self._position.run, step)

    def _write(self, event: MindEvent) -> None:
        self._outbox.put(event)
        self._spend = 0.0
        self.written += 1
