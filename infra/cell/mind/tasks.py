"""The files of tasks in the clone of the mind: which are open, which wait for the PM, and the answers to them.

The inbox is read as the PM pushed it, not as it lies in the clone: whatever a run writes there is no task."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from infra.cell.mind.answers import ReadAnswer, TaskAnswer, TaskStatus, active_text, answer_text, read_answer
from infra.shared.mind import questions
from infra.shared.mind.layout import ACTIVE, BLOCKED, COMPLETED, HELD, INBOX, OPEN_QUESTIONS
from infra.shared.mind.sections import Problem
from infra.shared.mind.tasks import TASK_ID, Task, inbox_of, order, without_task
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import Below

MOST_ANSWER_BYTES = 1 << 20
MOST_ANSWERS = 100_000


class TasksSeen(NamedTuple):
    """The tasks at one commit of the mind."""

    text: str = ""
    """Of the inbox."""
    open: tuple[Task, ...] = ()
    """What can be worked on, the next one first."""
    blocked: Mapping[str, ReadAnswer] = {}
    """What waits for the PM's answer, by id."""
    done: frozenset[str] = frozenset()
    """Stands in the inbox, and has its answer."""
    problems: tuple[Problem, ...] = ()

    def find(self, id: str) -> Task | None:
        return inbox_of(self.text).find(id)


class TaskFiles:
    """Below the root of the mind's clone."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._below = Below(root)

    def seen(self, text: str, answered: Iterable[str], now: float) -> TasksSeen:
        """`text`: the inbox as the PM pushed it; `answered`: tasks that were blocked and have the PM's answer."""
        inbox = inbox_of(text)
        problems = list(inbox.problems)
        finished = self._ids(COMPLETED)
        done, open_ones, blocked = set(), [], {}
        for task in inbox.tasks:
            if task.task_id in finished:
                done.add(task.task_id)
                if self._answer(COMPLETED, task.task_id).digest not in ("", task.digest):
                    why = f"{COMPLETED}/{task.task_id}.md has its answer already; give this task an id of its own"
                    problems.append(Problem(INBOX, 1, f"{task.task_id}: {why}"))
                continue
            asked = self._answer(BLOCKED, task.task_id)
            if asked.status is TaskStatus.BLOCKED:
                blocked[task.task_id] = asked
            # An edit of its block is an answer as well.
            if task.task_id not in blocked or task.task_id in answered or asked.digest != task.digest:
                open_ones.append(task)
        waiting = {id: asked for id, asked in blocked.items() if id not in {task.task_id for task in open_ones}}
        return TasksSeen(text, tuple(order(open_ones, now)), waiting, frozenset(done), tuple(sorted(problems)))

    def question(self, id: str) -> str:
        """What was asked about this task last; empty when nothing was."""
        asked = self._answer(BLOCKED, id)
        return asked.question if asked.status is TaskStatus.BLOCKED else ""

    def blocked_ids(self) -> frozenset[str]:
        """Tasks that a question was asked about."""
        return self._ids(BLOCKED)

    def begin(self, task: Task, run: str, began: str) -> None:
        """Raises OSError."""
        self._write(ACTIVE, active_text(task.task_id, task.description, run, began))

    def rest(self, inbox: str) -> None:
        """Nothing is being done, and the inbox is as the PM pushed it, but for what is done. Raises OSError."""
        self._write(ACTIVE, active_text())
        for id in self._ids(COMPLETED) & {task.task_id for task in inbox_of(inbox).tasks}:
            task = inbox_of(inbox).find(id)
            if task and self._answer(COMPLETED, id).digest == task.digest:
                inbox = without_task(inbox, task)
        content = inbox.encode(errors="surrogateescape")
        with contextlib.suppress(OSError):
            if self._below.whole(INBOX, len(content)) == content:
                return
        from infra.shared.files import write_whole  # the PM's words, byte for byte

        os.makedirs(os.path.dirname(self._path(INBOX)), exist_ok=True)
        write_whole(self._path(INBOX), content)

    def answer(self, answer: TaskAnswer) -> None:
        """Raises OSError."""
        self._write(answer.path, answer_text(answer))
        if answer.status is not TaskStatus.BLOCKED:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(f"{BLOCKED}/{answer.id}.md"))

    def is_answered(self, id: str) -> bool:
        """Somebody has closed it: the PM, who cancelled it."""
        return id in self._ids(COMPLETED)

    def questions(self) -> str:
        """`reflection/open_questions.md`; empty for one that cannot be read."""
        try:
            return self._below.whole(OPEN_QUESTIONS, questions.MOST_BYTES).decode(errors="surrogateescape")
        except OSError:
            return ""

    def write_questions(self, text: str, held_of: str = "") -> None:
        """`held_of`: the run, of a text that is for the PM alone. Raises OSError."""
        path = self._path(f"{HELD}/{held_of}/{OPEN_QUESTIONS}" if held_of else OPEN_QUESTIONS)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        RedactedFile(path).replace(text.encode(errors="surrogateescape"))

    def _ids(self, directory: str) -> frozenset[str]:
        try:
            names = self._below.names(directory, MOST_ANSWERS)
        except OSError:
            return frozenset()
        stems = (name.removesuffix(".md") for name in names if name.endswith(".md"))
        return frozenset(stem for stem in stems if TASK_ID.fullmatch(stem))

    def _answer(self, directory: str, id: str) -> ReadAnswer:
        try:
            content = self._below.whole(f"{directory}/{id}.md", MOST_ANSWER_BYTES)
        except (OSError, ValueError):
            return read_answer("")
        return read_answer(content.decode(errors="replace"))

    def _write(self, path: str, text: str) -> None:
        os.makedirs(os.path.dirname(self._path(path)), exist_ok=True)
        with contextlib.suppress(OSError, ValueError):
            if self._below.whole(path, MOST_ANSWER_BYTES) == text.encode():
                return
        RedactedFile(self._path(path)).replace(text)

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)
