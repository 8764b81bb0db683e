"""`tasks/inbox.md`: the PM's tasks, each a block of YAML between two lines `---`, and the Markdown below it. Pure.

A block that is not as expected is named and passed over; nothing else in the file is stopped by it. Only the PM adds
and changes blocks; the agent takes them out when they are done."""

from __future__ import annotations

import datetime
import hashlib
import re
import textwrap
from collections.abc import Iterable
from typing import Annotated, Final, Literal, NamedTuple, get_args

import msgspec

from infra.shared.mind.layout import INBOX
from infra.shared.mind.sections import Problem, front_matter

Priority = Literal["high", "medium", "low"]
Deadline = Annotated[datetime.datetime, msgspec.Meta(tz=True)]
TASK_ID: Final = re.compile(r"TASK-[0-9]{1,9}")
MOST_BYTES: Final = 1 << 20
"""Of the file: a larger one is not read."""
SOON_SECONDS: Final = 86_400.0
"""A task whose deadline is this near goes up a level."""
DESCRIPTION, CRITERIA = "# Task description", "## Success criteria"
_BEGINS = re.compile(r"^(?=---[ \t\r]*\n(?:(?!---|[ \t\r]*\n)[^\n]*\n){0,40}?[\"']?task_id[\"']?[ \t]*:)", re.MULTILINE)
"""Where a block begins: its keys follow the line `---` at once. Other lines `---` divide its text."""
_BROKEN = re.compile(r"^(?:<{7}|={7}$|>{7})|[\0\ud800-\udfff]", re.MULTILINE)
_REMARK = re.compile(r"^((?:task_id|priority|deadline)[ \t]*:[^#\n]*?)[ \t]+#.*$", re.MULTILINE)
_CRITERIA = re.compile(r"^##[ \t]+success criteria[ \t\r]*$", re.IGNORECASE | re.MULTILINE)
_DESCRIPTION = re.compile(r"\A\s*#[ \t]+task description[ \t\r]*(?:\n|\Z)", re.IGNORECASE)


class Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    task_id: Annotated[str, msgspec.Meta(pattern=rf"\A{TASK_ID.pattern}\Z")]
    priority: Priority
    deadline: Deadline | None = None
    context: str = ""
    description: str = ""
    criteria: str = ""
    text: str = ""
    """All of the block, as it stands in the file."""

    @property
    def digest(self) -> str:
        """Another one means that the PM has changed the block."""
        return hashlib.sha256(self.text.strip().encode(errors="surrogateescape")).hexdigest()[:16]

    @property
    def words(self) -> str:
        """The task as it is put to the model."""
        parts = (("", self.description), ("Context:\n\n", self.context), ("Success criteria:\n\n", self.criteria))
        return "\n\n".join(f"{name}{text}" for name, text in parts if text)

    @property
    def until(self) -> str:
        """The deadline as `2026-02-10T00:00:00Z`; empty for none."""
        return msgspec.to_builtins(self.deadline).replace("+00:00", "Z") if self.deadline else ""


class Inbox(NamedTuple):
    tasks: tuple[Task, ...]
    """The sound ones, in the order of the file."""
    problems: tuple[Problem, ...]

    def find(self, id: str) -> Task | None:
        return next((task for task in self.tasks if task.task_id == id), None)


def inbox_of(text: str) -> Inbox:
    """What stands in the file; never raises. Bytes that are not UTF-8 are expected as lone surrogates."""
    tasks, problems, (above, *blocks) = dict[str, Task](), list[Problem](), _BEGINS.split(text)
    line = 1 + above.count("\n")
    if re.search(r"^task_id[ \t]*:", above, re.MULTILINE):
        problems.append(Problem(INBOX, 1, "task_id: expected in a block that begins with a line '---'"))
    for block in blocks:
        try:
            task = _task(block)
            if task.task_id in tasks:
                raise ValueError("a task before it has this id, and that one counts; give this one another id")
            tasks[task.task_id] = task
        except ValueError as error:
            id = min(ids_in(block.partition("\n---")[0]), default="")
            problems.append(Problem(INBOX, line, f"{id}: {error}".removeprefix(": ")))
        line += block.count("\n")
    return Inbox(tuple(tasks.values()), tuple(problems))


def block_texts(text: str) -> list[str]:
    """Each block, sound or not, without blank lines at its end: read without YAML."""
    return [block.strip() for block in _BEGINS.split(text)[1:]]


def order(tasks: Iterable[Task], now: float) -> list[Task]:
    """By priority and then by deadline; what is due within a day, or was, goes up a level."""

    def urgency(task: Task) -> tuple[int, float]:
        at = task.deadline.timestamp() if task.deadline else float("inf")
        return max(0, get_args(Priority).index(task.priority) - (at <= now + SOON_SECONDS)), at

    return sorted(tasks, key=urgency)


def task_text(task: Task) -> str:
    """The block. Raises ValueError for a task that would not read back as it is."""
    until = f"deadline: {task.until}\n" if task.until else ""
    # The 2 is the measure, which a first line that begins with spaces would be taken for.
    context = textwrap.indent(f"context: |2\n{task.context}\n", "  ")[2:] if task.context else ""
    criteria = f"\n{CRITERIA}\n{task.criteria}\n" if task.criteria else ""
    head = f"---\ntask_id: {task.task_id}\npriority: {task.priority}\n{until}{context}---\n\n"
    text = f"{head}{DESCRIPTION}\n{task.description}\n{criteria}"
    read = inbox_of(text)
    if read.problems or [msgspec.structs.replace(each, text=task.text) for each in read.tasks] != [task]:
        raise ValueError(
            "these words would read back as another task; say it in other words, without '---' or headings"
        )
    return text


def with_task(inbox: str, block: str) -> str:
    """With a block at the end."""
    return f"{inbox.rstrip()}\n\n{block}"


def without_task(inbox: str, task: Task) -> str:
    """Without this block; all others stay byte for byte."""
    return inbox.replace(task.text, "", 1)


def ids_in(text: str) -> set[str]:
    """Every id that a text mentions, in whatever way."""
    return set(TASK_ID.findall(text))


def next_id(used: Iterable[str]) -> str:
    """One above the highest that was ever used."""
    return f"TASK-{max((int(id.partition('-')[2]) for id in used), default=0) + 1:03}"


def _task(block: str) -> Task:
    """Raises ValueError for the first fault."""
    if _BROKEN.search(block):
        raise ValueError("it holds conflict markers of git, or bytes that are no text")
    keys, rule, rest = block.partition("\n---")
    head, body = front_matter(_REMARK.sub(r"\1", keys) + rule + rest, Task)
    description, _, criteria = _CRITERIA.sub("\0", re.sub(r"\r+$", "", body, flags=re.MULTILINE), 1).partition("\0")
    if not (description := _DESCRIPTION.sub("", description).strip()):
        raise ValueError(f"there is no description; expected '{DESCRIPTION}' and words below it")
    return msgspec.structs.replace(
        head, context=head.context.rstrip(), description=description, criteria=criteria.strip(), text=block
    )
