"""The mind as one run meets it: read before it, searched in it, written and pushed after it.

Nothing here ends a run but a record that cannot be written: what is broken is said, and the rest goes on."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from infra.cell.actions import NOTE
from infra.cell.cell import Cell, agent_git
from infra.cell.loop.loop import RunResult
from infra.cell.loop.record import Acted, Line
from infra.cell.mind.context import Reads, opening
from infra.cell.mind.notes import LEFT, PmWords, note_tool, pm_words, said_in
from infra.cell.mind.profile import Citations
from infra.cell.mind.recall import recall_tool
from infra.cell.mind.record import Recorder
from infra.cell.policy.gate import gate_of, nobody
from infra.cell.tools.bash import bash_tool
from infra.cell.tools.tool import Position, Tool, Toolbox
from infra.shared.branches import MAIN, MIND
from infra.shared.clock import began
from infra.shared.conversation import TASK
from infra.shared.paths import PAGE
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file
from infra.shared.safe_files import Below

T = TypeVar("T")


def guarded(cell: Cell, failed: str, do: Callable[[], T]) -> T | None:
    """What is broken is told in the runner's log, and the rest goes on."""
    try:
        return do()
    except Exception as error:
        cell.log.info(failed, error=f"{type(error).__name__}: {error}")
        return None


def git_of(cell: Cell) -> Git:
    """Of the mind's clone."""
    return agent_git(cell.boot.places.mind, cell.boot.places)


def said_by(cell: Cell) -> Callable[[str], str]:
    """Gives the id of the directive or task that has these words, as they stand when it is first asked."""

    @functools.cache
    def words() -> PmWords:
        page = read_file(cell.git, f"refs/remotes/origin/{MAIN}", PAGE) or ""
        return pm_words(page, git_of(cell), f"refs/remotes/origin/{MIND}")

    return lambda quote: said_in(quote, words())


def shell_in(cell: Cell, directory: str) -> Toolbox:
    """The dispatcher with bash alone, for acts in this directory: the policy is asked, the PM is not."""
    limits = cell.boot.limits
    bash = bash_tool(directory, limits.bash_seconds, limits.output_chars, cell.interruption)
    return Toolbox((bash,), gate_of(cell.boot.policy, directory, nobody))


class MindRun:
    """One run's dealings with the mind, in the order of these methods. None of them raises, but Interrupted, and
    `record` what ends the run."""

    def __init__(self, cell: Cell, position: Position) -> None:
        self._cell, self._position = cell, position
        self._citations, self._has_noted = Citations(), False
        self._recorder: Recorder | None = None

    def reads(self, words: str) -> tuple[Reads, Reads]:
        """What is placed before a new run as results of reads, for work that these words describe: what is the same
        before most runs, and the rest."""
        if not os.path.isdir(self._cell.boot.places.mind):
            return (), ()
        place = functools.partial(opening, self._cell, words, self._citations)
        return guarded(self._cell, "mind.not_placed", place) or ((), ())  # a run without its memory is better than none

    def begin(self, words: str, ids: Sequence[str], resumed: bool = False, label: str = TASK) -> None:
        """The run has its name. `words`: the PM's own that it is about; `ids`: of its directives and tasks; `label`:
        what it is for."""
        if not os.path.isdir(self._cell.boot.places.mind):
            return
        if not resumed:
            mind = Below(self._cell.boot.places.mind)
            guarded(self._cell, "mind.notes_not_dropped", lambda: mind.remove(LEFT))  # an earlier run left them
        shown = sorted(self._citations.shown)
        self._recorder = Recorder(self._cell, self._position, words, ids, shown, resumed, label)

    def tools(self) -> tuple[Tool, ...]:
        """Beside the seed tools."""
        cell, places = self._cell, self._cell.boot.places
        if not os.path.isdir(places.mind):
            return ()
        noting = note_tool(places.main_checkout, cell.interruption, lambda quote: said_by(cell)(quote))
        return noting, recall_tool(places.mind, self._citations.found)

    def record(self, event: Line) -> None:
        """What the loop did: a line of events for each act. Raises NotRecorded."""
        self._has_noted |= isinstance(event, Acted) and event.call.name == NOTE and event.result.ok
        self._citations.seen(event)
        if self._recorder:
            self._recorder.record(event)

    def put_right(self) -> str:
        """The PM's files of the mind, as the branch has them; for the report: which the run had changed."""
        from infra.cell.mind import clone  # not before SUCCESS

        cell, name = self._cell, self._position.run or "unnamed"
        if not os.path.isdir(f"{cell.boot.places.mind}/.git"):
            return ""
        found = guarded(cell, "mind.not_put_right", lambda: clone.put_right(cell, name))
        return f"\n\nOf the mind these are yours alone, and were put back: {', '.join(found)}" if found else ""

    def end(self, result: RunResult) -> None:
        """The run is over, its report is written: close its records, learn, commit, push."""
        from infra.cell.mind import clone, learn
        from infra.cell.mind.metrics import write_metrics
        from infra.cell.mind.skill_care import SkillCare

        cell, name = self._cell, self._position.run or "unnamed"
        if self._recorder:
            self._recorder.end(result, **self._citations.told())
            taint = cell.keep.taint(began(name) or cell.wall())
            if self._has_noted and not taint.origins:  # else the daily pass does it: the door would take nothing now
                guarded(cell, "mind.not_learnt", lambda: cell.log.info("mind.learnt", words=learn.learn(cell)))
            guarded(cell, "mind.skills_not_looked_at", lambda: SkillCare(cell).after_run(taint))
            guarded(cell, "mind.metrics_not_written", lambda: write_metrics(cell))
        clone.publish(cell, f"run {name}: {result.reason.value.replace('_', ' ')}", name)
