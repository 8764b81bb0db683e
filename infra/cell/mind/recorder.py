"""Writes a run's events, from what the loop did; the model has no part in it.

An event that cannot be written ends the run. The notes of the chain's end go to the keep, which holds them where no
cell can change them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from infra.cell.loop.loop import Acted, Answered, Entered, Event, NotRecorded, RunResult, Told
from infra.cell.loop.registry import Position
from infra.cell.loop.ways import News
from infra.cell.mind import acts
from infra.cell.mind.event import ChainTip, EventContext, EventMetadata, EventType, Execution, MindEvent, Outcomes
from infra.cell.mind.event_writer import EventWriter
from infra.cell.mind.notes import NOTE, SHOWN
from infra.cell.run_states import RunState
from infra.shared.clock import timestamp
from infra.shared.mind.layout import EVENTS, ROOT
from infra.shared.secret_shapes import redacted_and_cut

DIRECTIVE_CHARS, END_CHARS = 1000, 1000
MOST_IDS = 100
UNKNOWN_ORIGIN = "unknown: the keep did not say"
BEGAN, WENT_ON, SAID = "began", "went on", "said"
"""Statuses of a task; others are reasons for which runs end."""


class Recorder:
    """Of one run, in the mind at `root`. No method raises but NotRecorded, and that `record` and `task` alone."""

    def __init__(
        self,
        root: str,
        checkout: str,
        position: Position,
        origins: Callable[[], tuple[str, ...]],
        now: Callable[[], float],
        note: Callable[..., object],
        shown: Callable[[], Sequence[str]] = tuple,
        note_head: Callable[[str, ChainTip, int], str] = lambda run, tip, since: "",
    ) -> None:
        """`origins`, `now` and `note` as in MindContext. `shown`: ids of what was placed before the run. `note_head`
        as in MindContext."""
        self._writer = EventWriter(root, note)
        self._checkout = checkout
        self._position = position
        self._ask_origins, self._now, self._note, self._note_head = origins, now, note, note_head
        self._has_begun = False
        self._resumed = False
        self._ids: tuple[str, ...] = ()
        self._words = ""
        self._shown = shown
        self._model, self._tokens, self._intent, self._skill = "", 0, "", ""
        self._origins: tuple[str, ...] = ()
        self._spend = 0.0
        self.label = "task"
        self.steps = self.written = 0

    def begin(self, words: str, ids: Sequence[str] = (), resumed: bool = False) -> None:
        """The PM's words that the run is about, and the ids of its directives or tasks."""
        self._words, self._ids, self._resumed = words, tuple(ids[:MOST_IDS]), resumed
        try:
            self._writer.make_place(timestamp(self._now()))
        except FileNotFoundError:
            return
        except OSError as error:  # the first event says so, if it cannot be written either
            self._note("mind.no_place_for_events", error=str(error))

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
        """The run, a directive or a task is in another state. Raises NotRecorded."""
        about = {"directives": list(self._ids)} | {name: value for name, value in details.items() if value}
        self._write(self._event("task_update", "", Outcomes(observations=words), "", status, about))

    def end(self, result: RunResult) -> None:
        """The run is over: what it wrote is on the disk, and the keep knows the end of its chain."""
        if not self._has_begun:
            return
        try:
            words = redacted_and_cut(result.text, END_CHARS)
            self._look_at_origins()  # a page can be read in a command, too
            self.task(result.reason.value, words, {"steps": result.steps, "failure": str(result.failure or "")})
        except NotRecorded as problem:
            self._note("mind.end_not_recorded", error=str(problem))
        try:
            refused = self._tell_keep()
        except OSError as error:
            self._note("mind.events_not_synced", error=str(error))
            return
        if self._writer.tip:
            facts = {"events": self.written, "bytes": self._writer.bytes, "seq": self._writer.tip.seq}
            self._note("mind.events_written", **facts, head_not_noted=refused or None)

    def _tell_keep(self) -> str:
        """What was written until now is on the disk, and the keep vouches for it; gives why not. Raises OSError."""
        return self._writer.noted_by(functools.partial(self._note_head, self._position.run))

    def _acted(self, event: Acted) -> None:
        call, result = event.call, event.result
        found = acts.told(call, result, event.seconds, self._checkout)
        if call.name in (NOTE, *acts.WEB):  # what is known is kept, so that not every act asks
            self._look_at_origins()
        step = f"{event.step}.{event.number}"
        made = self._event(found.type, step, found.outcomes, call.name, result.status, found.details, found.execution)
        self._write(made)
        self._skill = acts.skill_of(call, result) or self._skill
        if call.name == NOTE:  # it is to count also when the run is cut short
            with contextlib.suppress(OSError):  # the end of the run says so
                self._tell_keep()

    def _look_at_origins(self) -> None:
        """Where the keep does not say, the work counts as one that has read the web."""
        try:
            self._origins = self._ask_origins()
        except OSError:
            self._origins = self._origins or (UNKNOWN_ORIGIN,)

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
            origins=self._origins[: acts.MOST_LISTED],
            tool=tool[: acts.ARGUMENT_CHARS],
            status=status,
            details=details,
        )
        about = EventContext(self._ids[0] if self._ids else None, self._skill or None, self._intent if step else "")
        at = timestamp(self._now())
        return MindEvent(at, type, about, execution or Execution(), outcomes, metadata, self._position.run, step)

    def _write(self, event: MindEvent) -> None:
        try:
            try:
                self._writer.append(event)
            except (ValueError, TypeError, RecursionError) as error:
                if isinstance(error, OSError):
                    raise
                bare = msgspec.structs.replace(event.metadata, details={"left_out": str(error)[: acts.WORDS_CHARS]})
                self._writer.append(msgspec.structs.replace(event, metadata=bare))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            where = f"{ROOT}/{EVENTS}"
            raise NotRecorded(
                f"an event could not be written to {where}: {error}. What is not on record is not done: make room, or "
                "put the directory back"
            ) from error
        self._spend = 0.0
        self.written += 1
