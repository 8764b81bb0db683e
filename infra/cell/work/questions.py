"""Questions of the agent's own, for when there is nothing else to do, within what the PM allows for a UTC day. Money is
counted by the model door, time is counted here."""

from __future__ import annotations

import time
from collections.abc import Iterator

from infra.cell.cell import Cell
from infra.cell.page import PageSeen
from infra.cell.run_states import StopReason
from infra.cell.work.tasks import Tasks
from infra.cell.work.work import Over, Report, Work, WorkSource
from infra.shared.clock import began
from infra.shared.conversation import EXPLORATION
from infra.shared.mind.layout import OPEN_QUESTIONS
from infra.shared.mind.questions import open_questions, with_answer
from infra.shared.repository.git import GitError
from infra.shared.repository.tip import read_file

DAY_SECONDS = 3600.0
"""Of exploration in a UTC day: a model that costs nothing has no other bound."""
_EXPLORE = f"""\
Nobody waits for this: it is an open question of your own, from {OPEN_QUESTIONS}. Find out what you can within a few
steps, note what you learn, change nothing on main, and end your turn with the answer in a few sentences."""


class Questions(WorkSource):
    def __init__(self, cell: Cell, tasks: Tasks) -> None:
        self._cell, self._tasks = cell, tasks
        self._began = 0.0

    def open(self, seen: PageSeen) -> Iterator[Work]:
        """Each is tried once a day; those that the branch has as well, where no tainted agent asks any."""
        explored = self._explored()
        if self._cell.boot.exploration_usd is None or sum(explored.values()) >= DAY_SECONDS:
            return
        known = {*open_questions(self._pushed())}
        for each in open_questions(self._tasks.files.questions()):
            if each in known and each.id not in explored:
                subject = f"Task {each.id}: {each.text}"
                yield Work(each.id, subject, f"{subject}\n\n{_EXPLORE}", label=EXPLORATION)

    def begin(self, work: Work) -> None:
        self._began = time.monotonic()
        self._explores(work, 0.0)

    def end(self, work: Work, over: Over) -> Report | None:
        """Write the answer below the question. Nobody waits for a report."""
        cell, result, today = self._cell, over.result, self._cell.now()[:10]
        is_used_up = result.reason is StopReason.MODEL_UNAVAILABLE
        self._explores(work, DAY_SECONDS if is_used_up else time.monotonic() - self._began)
        cell.log.info("exploration.ended", question=work.id, end=result.reason.value)
        if result.reason is not StopReason.COMPLETED or not result.text.strip():
            return None
        read = cell.keep.taint(began(over.run) or 0.0)
        try:
            # What a tainted agent asks anew is not kept: the door would take nothing of the file.
            text = self._pushed() if read.is_tainted else self._tasks.files.questions()
            self._tasks.files.write_questions(with_answer(text, work.id, result.text, today, over.run, read.origins))
        except (GitError, OSError) as error:
            cell.log.error(
                "exploration.not_answered", error=str(error), next="see the disk and reflection/ of the mind"
            )
        return None

    def _explored(self) -> dict[str, float]:
        return self._cell.state.memory.explored.get(self._cell.now()[:10], {})

    def _explores(self, work: Work, seconds: float) -> None:
        """A run of exploration begins, or took so long."""
        self._cell.state.change(explored={self._cell.now()[:10]: self._explored() | {work.id: seconds}})

    def _pushed(self) -> str:
        """Raises GitError."""
        commit = self._tasks.commit
        return (commit and read_file(self._cell.git, commit, OPEN_QUESTIONS)) or ""
