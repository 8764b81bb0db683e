"""A run's dealings with what it is for beside directives: a task, an open question, or nothing of the kind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from infra.cell.cell import Cell
from infra.cell.loop.loop import RunResult
from infra.cell.mind.tasks import TaskStatus
from infra.cell.page import PageSeen
from infra.cell.run.evidence import commits_since, evidence, tips
from infra.cell.run_states import StopReason
from infra.cell.runner.job import Job, directive_ids, is_job
from infra.cell.runner.opening import Opening
from infra.cell.runner.tries import COUNTED, MOST_TRIES, stops_of_task
from infra.cell.runner.web_reads import WebReads
from infra.cell.state import Explored
from infra.shared.comms import Directive
from infra.shared.conversation import Request
from infra.shared.repository.git import GitError

if TYPE_CHECKING:
    from infra.cell.runner.task_desk import TaskDesk


class JobRun:
    def __init__(self, context: Cell, job: Job | None = None, desk: TaskDesk | None = None) -> None:
        """Without a job, the run is on directives alone."""
        self._context, self._job = context, job
        self._desk = desk
        self._start: Opening | None = None
        self._tips = tuple[str, ...]()
        self._began = time.monotonic()
        self._run = ""

    def asked(self, request: Request) -> Request:
        job = self._job
        return request._replace(label=job.label) if job else request

    def pm_words(self, tasks: Sequence[Directive]) -> str:
        """What the PM says in this work: neither our words around a task, nor a question of the agent's own."""
        said = [task.text for task in tasks if not is_job(task.id)]
        return "\n".join([self._job.pm_words, *said] if self._job else said)

    def with_news(self, other: Callable[[PageSeen], str | None]) -> Callable[[PageSeen], str | None]:
        """`other`, and what the PM has done to the task meanwhile."""
        job, desk = self._job, self._desk
        if job is None or job.task is None or desk is None:
            return other
        known = [job.task]

        def news(seen: PageSeen) -> str | None:
            said = other(seen)
            try:
                found = desk.news(known[0])
            except GitError as error:
                self._context.log.warning("inbox.not_read", error=str(error))
                return said
            if found is None:
                return said
            known[0] = found.task or known[0]
            return f"{said}\n\n{found.words}" if said else found.words

        return news

    def begin(self, start: Opening) -> None:
        self._run = start.name
        if self._job is None or self._desk is None:
            return
        self._start, self._tips = start, tips(self._context) if self._job.task else ()
        self._desk.begin(self._job, start.name)

    def report(
        self,
        result: RunResult,
        tasks: Sequence[Directive],
        answers: Collection[str],
        began_at: str,
        reads: WebReads,
    ) -> bool:
        """Write what the job came to, and queue its report; False when the run is to be reported like any other.
        `answers`: directives that are done with the run as well."""
        job, desk, context = self._job, self._desk, self._context
        if job is None or desk is None:
            return False
        if job.task is None:
            took = time.monotonic() - self._began
            context.state.explores(context.now()[:10], Explored(job.id, job.label, took))
            desk.end_exploration(job, result, self._run, reads)
            return not directive_ids(tasks)  # those that came meanwhile are reported as ever
        try:
            lines = self._start.record.lines if self._start else ()
            did = evidence(self._run, lines, commits_since(context, self._tips))
            end = desk.end(job, result, did, self._is_last_try(result.reason, job.id))
        except OSError as error:
            context.log.error("task.not_answered", task=job.id, error=str(error))
            title = f"{context.version()} answer not written: Task {job.id}"
            context.page.report(title, f"{error}\n\nThe task stays open, and is tried again at the next tick.")
            desk.put_off(job.task)
            return True
        if end is None:
            return False
        ticks = directive_ids(tasks)
        if end.status is TaskStatus.BLOCKED:  # what else the PM wants stays to be done
            ticks = directive_ids(job.answers)
        closed = () if end.status is TaskStatus.BLOCKED else (job.id,)
        context.page.add(f"{context.version()} {end.title}", end.text, (*ticks, *sorted(answers)), closed)
        context.log.info("task.ended", task=job.id, status=end.status.name)
        return True

    def rest(self) -> None:
        """The run is over."""
        if os.path.isdir(self._context.boot.places.mind):
            from infra.cell.runner.task_desk import TaskDesk

            (self._desk or TaskDesk(self._context)).rest()

    def send(self) -> None:
        if self._job:
            self._context.page.send()

    def _is_last_try(self, reason: StopReason, id: str) -> bool:
        if reason not in COUNTED:
            return False
        context = self._context
        try:
            stops = stops_of_task(context.git, context.page.look().commit, id, context.state.memory.unsent)
        except GitError as error:
            context.log.warning("tries.not_counted", error=str(error))
            return False
        return stops.runs + 1 >= MOST_TRIES
