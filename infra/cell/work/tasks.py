"""The tasks of the inbox: which are open, what a run on one ends with, and what the PM is told of the inbox itself."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence

from infra.cell.cell import Cell
from infra.cell.clip import clip
from infra.cell.clone_tip import CloneTip
from infra.cell.mind.mind import MindRun
from infra.cell.mind.tasks import TaskAnswer, TaskFiles, TaskStatus, has_failed, question_in
from infra.cell.page import PageSeen
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import Position
from infra.cell.wakes import Wakes
from infra.cell.work import report
from infra.cell.work.of_mind import mind_context
from infra.cell.work.work import Over, Report, Work
from infra.shared.branches import MIND
from infra.shared.comms import Directive
from infra.shared.mind.layout import COMPLETED, INBOX
from infra.shared.mind.sections import Problem
from infra.shared.mind.tasks import MOST_BYTES, Task, inbox_of
from infra.shared.repository.git import GitError, TooMuch
from infra.shared.repository.tip import read_file

REPORT_CHARS = 2000
MOST_PROBLEMS = 20
_ABSENT = "couldn't find remote ref"
_GONE = "it is no longer in the inbox"
_NAMES_TASK = re.compile(r"(?:task )?(TASK-[0-9]{1,9})[ \t]*[:,][ \t\n]*(.*)", re.IGNORECASE | re.DOTALL)
_HOW = f"""\
End your turn with a report for the PM: it becomes {COMPLETED}/{{id}}.md. Lines of it that begin with `Decision:`,
`Learned:` or `Follow-up:` are placed under these headings there. When you cannot go on without an answer of the PM's,
end your turn with a report whose first line is `BLOCKED: ` and the question; when it cannot be done at all, with one
whose first line is `FAILED: ` and why. The inbox is the PM's: leave tasks/inbox.md as it is."""


def named_task(text: str) -> str:
    """The task that a directive such as `TASK-001: the port is 80` is about; empty for none."""
    match = _NAMES_TASK.match(text)
    return match[1].upper() if match else ""


def work_on(task: Task, question: str, answers: Sequence[Directive]) -> Work:
    """`question`: what was asked about it last; `answers`: open directives that answer that, and are done with it."""
    until = f" Deadline: {task.until}." if task.until else ""
    parts = [f"Task {task.task_id}: {task.words}", f"Priority: {task.priority}.{until}"]
    if question:
        # Its file is the agent's: nothing in it passes for the PM's answer.
        quoted = "\n".join(f"> {line}" for line in question.splitlines())
        parts.append(f"You asked the PM about it:\n\n{quoted}")
    said = [match[2] for answer in answers if (match := _NAMES_TASK.match(answer.text))]
    parts += [f"The PM answers: {each}" for each in said]
    if question and not said:
        parts.append("The PM has changed the task since.")
    return Work(
        task.task_id,
        f"Task {task.task_id}: {task.description}",
        "\n\n".join([*parts, _HOW.format(id=task.task_id)]),
        "\n\n".join([task.words, *said]),
        task.digest,
        ticks=tuple(answer.id for answer in answers),
    )


class Tasks:
    def __init__(self, cell: Cell, wakes: Wakes) -> None:
        self._cell, self._wakes = cell, wakes
        self.files = TaskFiles(cell.boot.places.mind)
        self._prepared = ""
        """Of the mind, when the clone was last brought up to date."""
        self.commit = ""
        """Of the mind on origin, at the last look."""
        self._seen = dict[str, Task]()
        """By id, as they were at the last look."""

    def open(self, seen: PageSeen) -> Iterator[Work]:
        """As origin has them; none of an agent without a mind."""
        text = self._inbox()
        if text is None:
            return
        if self.commit != self._prepared or not os.path.isdir(self._cell.boot.places.mind):
            MindRun(mind_context(self._cell), Position()).prepare()
            self._prepared = self.commit
        self._wakes.seen_mind(self.commit)
        if isinstance(text, Problem):
            self._tell((text,))
            return
        tasks = self.files.seen(text, {named_task(each.text) for each in seen.open}, time.time())
        self._tell(tasks.problems)
        self._seen = {task.task_id: task for task in tasks.open}
        for task in tasks.open:
            answers = [each for each in seen.open if named_task(each.text) == task.task_id]
            yield work_on(task, self.files.question(task.task_id), answers)

    def without_answers(self, directives: Sequence[Directive]) -> list[Directive]:
        """Directives that are work of their own: none answers what was asked about a task."""
        return [each for each in directives if not self.files.question(named_task(each.text))]

    def begin(self, work: Work, run: str) -> None:
        """Show in `active.md` what is being done."""
        self._try(lambda: self.files.begin(self._seen[work.id], run, self._cell.now()))

    def news(self, work: Work, seen: PageSeen) -> tuple[str, Work]:
        text = self._inbox()
        task = inbox_of(text).find(work.id) if isinstance(text, str) else None
        if not isinstance(text, str) or (task.digest if task else _GONE) == work.digest:
            return "", work
        if task:
            words = f"The PM has changed {work.id}; take it into account now:\n\n{task.words}"
            return words, work._replace(digest=task.digest)
        words = f"The PM has taken {work.id} out of the inbox: stop work on it, and end your turn with a short report."
        return words, work._replace(digest=_GONE)

    def end(self, work: Work, over: Over) -> Report | None:
        told = self._told(work, over)
        self.rest()
        return told

    def _told(self, work: Work, over: Over) -> Report | None:
        """Write the answer, when the run came to one; its task is open as before when that cannot be written."""
        result = over.result
        is_over = result.reason is StopReason.COMPLETED and not over.wait.is_review
        is_given_up = over.wait.is_counted and over.wait.until is None
        if not is_over and not is_given_up:
            return report.of(work, over)
        shown, text = clip(result.text, REPORT_CHARS), self._inbox_if_readable()
        task = inbox_of(text).find(work.id) if isinstance(text, str) else self._seen[work.id]
        if task is None:
            words = f"It is no longer in the inbox.\n\n{shown}"
            return Report(f"cancelled: {work.subject}", words, work.ticks, (work.id,))
        question = question_in(result.text) if is_over else ""
        status, word, summary = TaskStatus.COMPLETE, "done", result.text
        if question:
            status, word, summary = TaskStatus.BLOCKED, "blocked", question
            shown = clip(question, REPORT_CHARS)
            shown += f"\n\nTo answer, add a directive that begins with `{work.id}:`, or change it in {INBOX}."
        elif not is_over or has_failed(result.text):
            status, word = TaskStatus.FAILED, "failed"
        if not is_over:
            summary = f"Given up after the last try: {result.reason.value}.\n\n{result.text}"
        did = over.did()
        answer = TaskAnswer(work.id, status, self._cell.now()[:10], summary, did, task.text, task.digest)
        try:
            self.files.answer(answer)
        except OSError as error:
            self._cell.log.error("task.not_answered", task=work.id, error=str(error))
            then = "The task stays open, and is tried again at the next tick."
            return Report(f"answer not written: {work.subject}", f"{error}\n\n{then}")
        self._cell.log.info("task.ended", task=work.id, status=status.name)
        where = f"The answer: {answer.path} on the branch mind (`minifram task show {work.id}`)."
        closed = () if status is TaskStatus.BLOCKED else (work.id,)
        return Report(f"{word}: {work.subject}", f"{shown}\n\n{where}", (*work.ticks, *over.answers), closed)

    def rest(self) -> None:
        """After any run: nothing is being done, and the inbox is the PM's again. Never raises."""
        if not os.path.isdir(self._cell.boot.places.mind):
            return
        text = self._inbox_if_readable()
        if isinstance(text, str):
            self._try(lambda: self.files.rest(text))

    def _tell(self, problems: Sequence[Problem]) -> None:
        """Report what cannot be read of the inbox, once as long as it stays so."""
        state, page = self._cell.state, self._cell.page
        text = "\n".join(f"- {problem}" for problem in problems[:MOST_PROBLEMS])
        said = "\n".join(each.what for each in problems)  # wherever it stands
        told = hashlib.sha256(said.encode(errors="replace")).hexdigest() if text else ""
        if told == state.memory.inbox_told:
            return
        state.change(inbox_told=told)
        if text:
            more = len(problems) - MOST_PROBLEMS
            text += f"\n- and {more} more" if more > 0 else ""
            title = f"{INBOX} has what cannot be read"
            page.report(title, f"{text}\n\nAll other tasks are worked on. Edit {INBOX} on the branch mind.")

    def _inbox_if_readable(self) -> str | Problem | None:
        try:
            return self._inbox()
        except GitError as error:
            self._cell.log.warning("inbox.not_read", error=str(error))
            return None

    def _inbox(self) -> str | Problem | None:
        """As the PM pushed it; None without a branch `mind`. Raises GitError."""
        git = self._cell.git
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
            self._cell.log.error("tasks.not_written", error=str(error), next="see the disk and tasks/ of the mind")
