"""The tasks of the inbox: which are open, what a run on one ends with, and what the PM is told of the inbox itself."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence

from infra.cell.cell import Cell
from infra.cell.clip import clip
from infra.cell.clone_tip import CloneTip
from infra.cell.mind import clone
from infra.cell.mind.tasks import TaskAnswer, TaskFiles, TaskStatus, has_failed, question_in
from infra.cell.page import PageSeen
from infra.cell.run_states import StopReason
from infra.cell.wakes import Wakes
from infra.cell.work import report
from infra.cell.work.evidence import commits_since, evidence
from infra.cell.work.work import Over, Report, Work, WorkSource
from infra.shared.branches import MIND
from infra.shared.clock import began
from infra.shared.comms import Directive
from infra.shared.mind.layout import COMPLETED, INBOX
from infra.shared.mind.tasks import MOST_BYTES, Task, inbox_of
from infra.shared.repository.git import GitError, TooMuch
from infra.shared.repository.tip import read_file
from infra.shared.secret_shapes import redacted

REPORT_CHARS = 2000
MOST_PROBLEMS = 20
_ABSENT = "couldn't find remote ref"
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
    said = [match[2] for answer in answers if (match := _NAMES_TASK.match(answer.text))]
    if question:
        # Its file is the agent's: nothing in it passes for the PM's answer.
        quoted = "\n".join(f"> {line}" for line in question.splitlines())
        parts.append(f"You asked the PM about it:\n\n{quoted}")
        parts += [] if said else ["The PM has changed the task since."]
    parts += [*(f"The PM answers: {each}" for each in said), _HOW.format(id=task.task_id)]
    return Work(
        task.task_id,
        f"Task {task.task_id}: {task.description}",
        "\n\n".join(parts),
        "\n\n".join([task.words, *said]),
        task.digest,
        ticks=tuple(answer.id for answer in answers),
    )


class Tasks(WorkSource):
    def __init__(self, cell: Cell, wakes: Wakes) -> None:
        self._cell, self._wakes = cell, wakes
        self.files = TaskFiles(cell.boot.places.mind)
        self.commit = ""
        """Of the mind on origin, at the last look; empty without a branch `mind`."""
        self._prepared = ""
        self._inbox = self._problems = ""

    def look(self) -> None:
        """At the mind as origin has it; when it has moved, its clone follows. Raises GitError."""
        self._read()
        if self.commit and (self.commit != self._prepared or not os.path.isdir(self._cell.boot.places.mind)):
            clone.prepare(self._cell)
            self._prepared = self.commit
        self._wakes.seen(mind=self.commit)

    def open(self, seen: PageSeen) -> Iterator[Work]:
        """Those of the inbox as the PM pushed it; what else stands there is told once by each runner."""
        tasks, found = self.files.seen(self._inbox, {named_task(each.text) for each in seen.open}, time.time())
        problems = "\n".join(f"- {each}" for each in found[:MOST_PROBLEMS])
        if problems not in ("", self._problems):
            then = f"All other tasks are worked on. Edit {INBOX} on the branch mind."
            self._cell.page.report(f"{INBOX} has what cannot be read", f"{problems}\n\n{then}")
        self._problems = problems
        for task in tasks:
            answers = [each for each in seen.open if named_task(each.text) == task.task_id]
            yield work_on(task, self.files.question(task.task_id), answers)

    def is_answer(self, directive: str) -> bool:
        """It answers what was asked about a task that is still there, and is no work of its own."""
        id = named_task(directive)
        return bool(self.files.question(id) and inbox_of(self._inbox).find(id))

    def begin(self, work: Work) -> None:
        """Show in `active.md` what is being done."""
        try:
            if task := self._task(work):
                self.files.begin(task)
        except OSError as error:
            self._cell.log.error("tasks.not_written", error=str(error), next="see the disk and tasks/ of the mind")

    def news(self, work: Work, seen: PageSeen) -> tuple[str, Work]:
        self._read()
        task = self._task(work)
        if task is None:
            words = f"The PM has taken {work.id} out of the inbox: stop work on it, and end your turn with a short"
            return (f"{words} report.", work._replace(digest="")) if work.digest else ("", work)
        if task.digest == work.digest:
            return "", work
        words = f"The PM has changed {work.id}; take it into account now:\n\n{task.words}"
        return words, work._replace(digest=task.digest)

    def end(self, work: Work, over: Over) -> Report | None:
        """With the answer to the task, when the run came to one."""
        result, task = over.result, self._task(work)
        if task is None:
            words = f"It is no longer in the inbox.\n\n{clip(redacted(result.text), REPORT_CHARS)}"
            return Report(f"cancelled: {work.subject}", words, work.ticks, (work.id,))
        is_over = result.reason is StopReason.COMPLETED and not over.wait.is_review
        if not is_over and not (over.wait.is_counted and over.wait.until is None):
            return report.of(work, over)
        status, word, shown, then = TaskStatus.COMPLETE, "done", result.text, ""
        if not is_over:
            status, word = TaskStatus.FAILED, "failed"
            shown = f"Given up after the last try: {result.reason.value}.\n\n{result.text}"
        elif question := question_in(result.text):
            status, word, shown = TaskStatus.BLOCKED, "blocked", question
            then = f"To answer, add a directive that begins with `{work.id}:`, or change it in {INBOX}.\n\n"
        elif has_failed(result.text):
            status, word = TaskStatus.FAILED, "failed"
        did = evidence(over.run, over.lines, commits_since(self._cell, began(over.run) or time.time()))
        answer = TaskAnswer(work.id, status, self._cell.now()[:10], shown, did, task.text, task.digest)
        where = f"{then}The answer: {answer.path} on the branch mind (`minifram task show {work.id}`)."
        done = () if status is TaskStatus.BLOCKED else (work.id,)
        words = f"{clip(redacted(shown), REPORT_CHARS)}\n\n{where}"
        return Report(f"{word}: {work.subject}", words, work.ticks, done, answer=answer)

    def close(self, told: Report | None) -> None:
        """The task is open as before when its answer cannot be written."""
        try:
            if told and told.answer:
                self.files.answer(told.answer)
            self.files.rest(self._inbox)
        except OSError as error:
            self._cell.log.error("tasks.not_written", error=str(error), next="see the disk and tasks/ of the mind")

    def _task(self, work: Work) -> Task | None:
        return inbox_of(self._inbox).find(work.id)

    def _read(self) -> None:
        """The inbox as the PM pushed it. Raises GitError."""
        cell = self._cell
        try:
            self.commit = CloneTip(cell.git, MIND).look()
            self._inbox = read_file(cell.git.saying_at_most(MOST_BYTES), self.commit, INBOX) or ""
        except TooMuch:
            cell.log.error("inbox.not_read", expected=f"at most {MOST_BYTES:,} bytes", next="the PM makes it shorter")
        except GitError as error:
            if _ABSENT not in error.stderr:
                raise
            self.commit = self._inbox = ""
