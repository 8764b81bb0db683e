"""The mind as one run meets it: brought up to date before, read and searched in it, written and pushed after it.

Nothing here ends a run but a record that cannot be written: what is broken is said, and the rest goes on."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from infra.cell.interruption import Interruption
from infra.cell.loop.loop import RunResult
from infra.cell.loop.record import Acted, Line
from infra.cell.mind.context import Reads, opening
from infra.cell.mind.notes import LEFT, NOTE, note_tool, pm_words, said_in
from infra.cell.mind.profile import Citations
from infra.cell.mind.recall import recall_tool
from infra.cell.mind.record import Recorder
from infra.cell.tools.tool import Position, Tool, Toolbox
from infra.shared.conversation import TASK, Completion, Request
from infra.shared.paths import Paths
from infra.shared.repository.git import Git
from infra.shared.requests import Recorded
from infra.shared.safe_files import Below

T = TypeVar("T")
UNKNOWN_ORIGIN = "unknown: the keep did not say"


class MindContext(NamedTuple):
    places: Paths
    git: Git
    """Of the clone at `places.mind`."""
    remote_url: str
    exploration_usd: float | None
    note: Callable[..., object]
    """Writes a line into the runner's log: `note("mind.pushed", commit=…)`."""
    ask: Callable[[Request], Completion]
    """One model call."""
    origins: Callable[[], tuple[str, ...]]
    """Sites whose text the run was served. Raises OSError when the keep does not say."""
    is_tainted: Callable[[], bool]
    """Whether the agent has read the web since the PM last trusted it. Raises OSError when the keep does not say."""
    record: Callable[[Sequence[dict[str, Any]]], Recorded]
    """Hands events to the keep (`requests.Record`). Raises OSError when it does not take them."""
    page: Callable[[], str]
    """COMMS.md of main."""
    now: Callable[[], float]
    """Wall-clock seconds."""
    interruption: Interruption
    toolbox_in: Callable[[str], Toolbox] | None = None
    """The dispatcher, for acts in this directory; the policy is asked, the PM is not. None where there is none."""

    def said_by(self) -> Callable[[str], str]:
        """Gives the id of the directive or task that has these words, as they stand when it is first asked."""
        words = functools.cache(lambda: pm_words(self.page(), self.git, "refs/remotes/origin/mind"))
        return lambda quote: said_in(quote, words())


def is_tainted(context: MindContext) -> bool:
    """Whether the agent is; where the keep does not say, it counts as such."""
    try:
        return context.is_tainted()
    except OSError:
        return True


class MindRun:
    """One run's dealings with the mind, in the order of these methods. None of them raises, but Interrupted, and
    `record` what ends the run."""

    def __init__(self, context: MindContext, position: Position) -> None:
        self._context, self._position = context, position
        self._citations, self._has_noted = Citations(), False
        self._recorder: Recorder | None = None

    def prepare(self) -> None:
        """Bring the clone up to date with the branch; make it when it is gone. The PM's files in it are put right."""
        from infra.cell.mind import clone  # not before SUCCESS

        clone.prepare(self._context)

    def reads(self, words: str) -> tuple[Reads, Reads]:
        """What is placed before a new run as results of reads, for work that these words describe: what is the same
        before most runs, and the rest."""
        if not os.path.isdir(self._context.places.mind):
            return (), ()
        place = functools.partial(opening, self._context, words, self._citations)
        return self._guarded("mind.not_placed", place) or ((), ())  # a run without its memory is better than none

    def begin(self, words: str, ids: Sequence[str], resumed: bool = False, label: str = TASK) -> None:
        """The run has its name. `words`: the PM's own that it is about; `ids`: of its directives and tasks; `label`:
        what it is for."""
        if not os.path.isdir(self._context.places.mind):
            return
        if not resumed:
            mind = Below(self._context.places.mind)
            self._guarded("mind.notes_not_dropped", lambda: mind.remove(LEFT))  # an earlier run left them
        shown = sorted(self._citations.shown)
        self._recorder = Recorder(self._context, self._position, words, ids, shown, resumed, label)

    def tools(self) -> tuple[Tool, ...]:
        """Beside the seed tools."""
        places = self._context.places
        if not os.path.isdir(places.mind):
            return ()
        noting = note_tool(
            places.main_checkout, self._context.interruption, lambda quote: self._context.said_by()(quote)
        )
        return noting, recall_tool(places.mind, self._citations.found)

    def preflight(self) -> str:
        """Why the agent must not become another version of itself now; empty when it may."""
        from infra.cell.mind import preflight

        return preflight.problem(self._context)

    def record(self, event: Line) -> None:
        """What the loop did: a line of events for each act. Raises NotRecorded."""
        self._has_noted |= isinstance(event, Acted) and event.call.name == NOTE and event.result.ok
        self._citations.seen(event)
        if self._recorder:
            self._recorder.record(event)

    def put_right(self) -> str:
        """The PM's files of the mind, as the branch has them; for the report: which the run had changed."""
        from infra.cell.mind import clone

        found = clone.put_right(self._context, self._position.run or "unnamed")
        return f"\n\nOf the mind these are yours alone, and were put back: {', '.join(found)}" if found else ""

    def end(self, result: RunResult) -> None:
        """The run is over, its report is written: close its records, learn, commit, push."""
        from infra.cell.mind import clone, learn
        from infra.cell.mind.metrics import write_metrics
        from infra.cell.mind.skill_care import SkillCare

        context, name = self._context, self._position.run or "unnamed"
        if self._recorder:
            self._recorder.end(result, **self._citations.told())
            if self._has_noted:  # else the daily pass does it
                self._guarded("mind.not_learnt", lambda: context.note("mind.learnt", words=learn.after_run(context)))
            self._guarded("mind.skills_not_looked_at", SkillCare(context).after_run)
            self._guarded("mind.metrics_not_written", lambda: write_metrics(context))
        clone.publish(context, f"run {name}: {result.reason.value.replace('_', ' ')}", name)

    def _guarded(self, failed: str, do: Callable[[], T]) -> T | None:
        try:
            return do()
        except Exception as error:
            self._context.note(failed, error=f"{type(error).__name__}: {error}")
            return None
