"""The tasks of the inbox as the work loop sees them: which is next, what a run on one ends with, and what the PM is
told of the inbox itself."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from infra.cell.cell import Cell
from infra.cell.clip import clip
from infra.cell.clone_tip import CloneTip
from infra.cell.loop.loop import RunResult
from infra.cell.mind.mind import UNKNOWN_ORIGIN, MindRun
from infra.cell.mind.tasks import TaskAnswer, TaskEvidence, TaskFiles, TasksSeen, TaskStatus, has_failed, question_in
from infra.cell.run_states import StopReason
from infra.cell.runner.job import Job, named_task, task_job
from infra.cell.runner.mind import mind_context
from infra.cell.runner.tries import may_begin, next_try_at, stops_of_task
from infra.cell.runner.web_reads import WebReads
from infra.cell.state import Explored
from infra.cell.tools.tool import Position
from infra.shared.branches import MIND
from infra.shared.clock import timestamp
from infra.shared.comms import Directive
from infra.shared.mind.layout import INBOX, OPEN_QUESTIONS
from infra.shared.mind.questions import OpenQuestion, new_question, open_questions, with_answer
from infra.shared.mind.sections import Problem
from infra.shared.mind.tasks import MOST_BYTES, Task, inbox_of
from infra.shared.repository.git import GitError, TooMuch
from infra.shared.repository.tip import read_file

REPORT_CHARS = 2000
MOST_PROBLEMS = 20
_ABSENT = "couldn't find remote ref"
_GONE = Task(task_id="", priority="low")


class TaskEnd(NamedTuple):
    """What a run on a task came to."""

    status: TaskStatus
    title: str
    """Of the report, behind the version: `done: Task TASK-001: …`."""
    text: str


class TaskNews(NamedTuple):
    words: str
    """For the model."""
    task: Task
    """As it is now."""


class TaskDesk:
    """Of one runner's life."""

    def __init__(self, context: Cell) -> None:
        self._context = context
        self._files = TaskFiles(context.boot.places.mind)
        self._prepared = ""
        """Of the mind, when the clone was last brought up to date."""
        self.commit = ""
        """Of the mind on origin, at the last look."""
        self._put_off: dict[str, str] = {}
        """Tasks that could not be finished, with their digest: not tried again until the clock ticks."""

    def ticked(self) -> None:
        self._put_off.clear()

    def put_off(self, task: Task) -> None:
        self._put_off[task.task_id] = task.digest

    def look(self, open_directives: Sequence[Directive] = (), again: bool = False) -> TasksSeen | None:
        """The tasks as origin has them; None when the agent has no mind. Raises GitError."""
        text = self._inbox()
        if text is None:
            return None
        commit = self.commit
        if again or commit != self._prepared or not os.path.isdir(self._context.boot.places.mind):
            MindRun(mind_context(self._context), Position()).prepare()
            self._prepared = commit
        if isinstance(text, Problem):
            return TasksSeen(problems=(text,))
        return self._files.seen(text, {named_task(each.text) for each in open_directives}, time.time())

    def without_answers(self, tasks: Sequence[Directive]) -> list[Directive]:
        """Directives that are work of their own: neither do they answer what was asked about a task."""
        return [task for task in tasks if not self._files.question(named_task(task.text))]

    def next(self, seen: TasksSeen, open_directives: Sequence[Directive], main: str, asked_pm: str) -> Job | None:
        """The task to work on now; `asked_pm`: the digest of one that waits for an approval. Raises GitError."""
        context = self._context
        for task in seen.open:
            if self._put_off.get(task.task_id) == task.digest or asked_pm == task.digest:
                continue
            stops = stops_of_task(context.git, main, task.task_id, context.state.memory.unsent)
            if stops.runs and not may_begin(stops, context.boot.limits.work_seconds, time.time()):
                at = next_try_at(stops, context.boot.limits.work_seconds)
                context.log.info("task.put_off", task=task.task_id, stopped=stops.runs, until=at and timestamp(at))
                continue
            answers = [each for each in open_directives if named_task(each.text) == task.task_id]
            return task_job(task, self._files.question(task.task_id), answers)
        return None

    def tell_problems(self, problems: Sequence[Problem]) -> None:
        """Report what cannot be read of the inbox, once as long as it stays so."""
        context = self._context
        text = "\n".join(f"- {problem}" for problem in problems[:MOST_PROBLEMS])
        said = "\n".join(each.what for each in problems)  # wherever it stands
        told = hashlib.sha256(said.encode(errors="replace")).hexdigest() if text else ""
        if told == context.state.memory.inbox_told:
            return
        context.state.change(inbox_told=told)
        if text:
            more = len(problems) - MOST_PROBLEMS
            text += f"\n- and {more} more" if more > 0 else ""
            title = f"{context.version()} {INBOX} has what cannot be read"
            context.page.report(title, f"{text}\n\nAll other tasks are worked on. Edit {INBOX} on the branch mind.")

    def news(self, task: Task) -> TaskNews | None:
        """That the PM has changed or cancelled a task. Raises GitError."""
        text = self._inbox()
        if not isinstance(text, str):
            return None
        now = inbox_of(text).find(task.task_id)
        if now is None:
            words = (
                f"The PM has taken {task.task_id} out of the inbox: stop work on it, and end your turn with a "
                "short report."
            )
            return None if task is _GONE else TaskNews(words, _GONE)
        if now.digest != task.digest:
            return TaskNews(f"The PM has changed {task.task_id}; take it into account now:\n\n{now.words}", now)
        return None

    def begin(self, job: Job, run: str) -> None:
        """Show in `active.md` what is being done; a question is tried once a day. Never raises."""
        task = job.task
        if task:
            self._try(lambda: self._files.begin(task, run, self._context.now()))
        else:
            self._context.state.explores(self._context.now()[:10], Explored(job.id, job.label))

    def rest(self) -> None:
        """After any run: nothing is being done, and the inbox is the PM's again. Never raises."""
        if not os.path.isdir(self._context.boot.places.mind):
            return
        text = self._inbox_if_readable()
        if isinstance(text, str):
            self._try(lambda: self._files.rest(text))

    def end(self, job: Job, result: RunResult, evidence: TaskEvidence, is_last_try: bool) -> TaskEnd | None:
        """Write the answer, when the run came to one. None when its task goes on, or is nobody's any more. Raises
        OSError when the answer cannot be written: then the task is open as before."""
        task = job.task
        if task is None:
            return None
        is_over = result.reason is StopReason.COMPLETED
        if not is_over and not is_last_try:
            return None
        subject, shown = f"Task {task.task_id}: {task.description}", clip(result.text, REPORT_CHARS)
        text = self._inbox_if_readable()
        if isinstance(text, str):
            now = inbox_of(text).find(task.task_id)
            if now is None:
                return TaskEnd(TaskStatus.FAILED, f"cancelled: {subject}", f"It is no longer in the inbox.\n\n{shown}")
            task = now
        question = question_in(result.text) if is_over else ""
        status, word, summary = TaskStatus.COMPLETE, "done", result.text
        if question:
            status, word, summary = TaskStatus.BLOCKED, "blocked", question
            shown = clip(question, REPORT_CHARS)
            shown += f"\n\nTo answer, add a directive that begins with `{task.task_id}:`, or change it in {INBOX}."
        elif not is_over or has_failed(result.text):
            status, word = TaskStatus.FAILED, "failed"
        if not is_over:
            summary = f"Given up after the last try: {result.reason.value}.\n\n{result.text}"
        answer = TaskAnswer(task.task_id, status, self._context.now()[:10], summary, evidence, task.text, task.digest)
        self._files.answer(answer)
        where = f"The answer: {answer.path} on the branch mind (`minifram task show {task.task_id}`)."
        return TaskEnd(status, f"{word}: {subject}", f"{shown}\n\n{where}")

    def questions(self) -> list[OpenQuestion]:
        """Those that the branch has as well, where no tainted agent asks any. Raises GitError."""
        text = read_file(self._context.git, self.commit, OPEN_QUESTIONS) if self.commit else None
        pushed = set(open_questions(text or ""))
        return [each for each in open_questions(self._files.questions()) if each in pushed]

    def end_exploration(self, job: Job, result: RunResult, run: str, reads: WebReads) -> None:
        """Write the answer below the question. Never raises."""
        if result.reason is not StopReason.COMPLETED or not result.text.strip():
            self._context.log.info("exploration.ended", question=job.id, end=result.reason.value)
            return
        today, text = self._context.now()[:10], self._files.questions()
        try:
            origins, is_tainted = reads.origins(), reads.is_tainted()
        except OSError:
            origins, is_tainted = (UNKNOWN_ORIGIN,), True
        if is_tainted:
            text = self._without_new_questions(text, run)
        text = with_answer(text, job.id, result.text, today, run, origins)
        self._try(lambda: self._files.write_questions(text))
        self._context.log.info("exploration.answered", question=job.id)

    def _without_new_questions(self, text: str, run: str) -> str:
        """A tainted agent asks nothing anew: what it wrote goes aside, or the answer could not be pushed."""
        try:
            pushed = read_file(mind_context(self._context).git, f"refs/remotes/origin/{MIND}", OPEN_QUESTIONS) or ""
        except GitError:
            pushed = ""
        if not new_question(pushed, text):
            return text
        self._try(lambda: self._files.write_questions(text, held_of=run))
        return pushed

    def _inbox_if_readable(self) -> str | Problem | None:
        try:
            return self._inbox()
        except GitError as error:
            self._context.log.warning("inbox.not_read", error=str(error))
            return None

    def _inbox(self) -> str | Problem | None:
        """As the PM pushed it; None without a branch `mind`. Raises GitError."""
        git = self._context.git
        try:
            self.commit = CloneTip(git, MIND).look()
        except GitError as error:
            if _ABSENT in error.stderr:
                return None
            raise
        try:
            return read_file(git.saying_at_most(MOST_BYTES), self.commit, INBOX) or ""
        except TooMuch:
            return Problem(INBOX, 1, f"it is over {MOST_BYTES:,} bytes and is not read; expected blocks of tasks")

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._context.log.error("tasks.not_written", error=str(error), next="see the disk and tasks/ of the mind")
