"""What a run is for beside directives: a task of the inbox, or an open question that the agent explores by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from infra.shared.comms import Directive
from infra.shared.conversation import TASK
from infra.shared.mind.layout import COMPLETED, OPEN_QUESTIONS
from infra.shared.mind.questions import OpenQuestion
from infra.shared.mind.tasks import Task

_ID = re.compile(r"[A-Z]{1,12}-[0-9]{1,12}")
"""Of a job; a directive's is of hexadecimal digits."""
_NAMES_TASK = re.compile(r"(?:task )?(TASK-[0-9]{1,9})[ \t]*[:,][ \t\n]*(.*)", re.IGNORECASE | re.DOTALL)

_HOW = f"""\
End your turn with a report for the PM: it becomes {COMPLETED}/{{id}}.md. Lines of it that begin with `Decision:`,
`Learned:` or `Follow-up:` are placed under these headings there. When you cannot go on without an answer of the PM's,
end your turn with a report whose first line is `BLOCKED: ` and the question; when it cannot be done at all, with one
whose first line is `FAILED: ` and why. The inbox is the PM's: leave tasks/inbox.md as it is."""
_EXPLORE = f"""\
Nobody waits for this: it is an open question of your own, from {OPEN_QUESTIONS}. Find out what you can within a few
steps, note what you learn, change nothing on main, and end your turn with the answer in a few sentences.{{may}}"""
_MAY = {
    "": "\nThe web and the installing of packages are for questions that are marked so: `(web)`, `(tools)`.",
    "web": "\nYou may read the web for it, and install nothing.",
    "tools": "\nYou may install packages for it, outside of main, and read no pages.",
    "skills": "\nWhat you change is a skill in skills/candidates/.",
}


class Job(NamedTuple):
    id: str
    """`TASK-001`, or `Q-0001`."""
    words: str
    """As the model reads them."""
    label: str = TASK
    task: Task | None = None
    answers: tuple[Directive, ...] = ()
    """Open directives of the PM's that answer what was asked about it; done with the run."""

    pm_words: str = ""
    """What of the words is the PM's."""

    @property
    def directives(self) -> list[Directive]:
        return [Directive(self.id, self.words, False, 0), *self.answers]


def is_job(id: str) -> bool:
    return bool(_ID.fullmatch(id))


def directive_ids(tasks: Sequence[Directive]) -> tuple[str, ...]:
    """Of those that stand on the page."""
    return tuple(task.id for task in tasks if not is_job(task.id))


def named_task(text: str) -> str:
    """The task that a directive such as `TASK-001: the port is 80` is about; empty for none."""
    match = _NAMES_TASK.match(text)
    return match[1].upper() if match else ""


def task_job(task: Task, question: str, answers: Sequence[Directive]) -> Job:
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
    words = "\n\n".join([*parts, _HOW.format(id=task.task_id)])
    return Job(task.task_id, words, TASK, task, tuple(answers), "\n\n".join([task.words, *said]))


def exploration_job(question: OpenQuestion) -> Job:
    words = f"Task {question.id}: {question.text}\n\n{_EXPLORE.format(may=_MAY[question.part])}"
    return Job(question.id, words, question.label)
