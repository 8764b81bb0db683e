"""Changes of `tasks/inbox.md`: a block is written, added or taken out, and all others stay byte for byte. Pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable

from infra.shared.mind.inbox import CRITERIA, DESCRIPTION, TASK_ID, TaskBlock, block_texts, parse_inbox
from infra.shared.mind.layout import BLOCKED, COMPLETED, INBOX


def task_text(task: TaskBlock) -> str:
    """The block. Raises ValueError for a task that would not read back as it is."""
    lines = ["---", f"task_id: {task.id}", f"priority: {task.priority}"]
    if task.deadline is not None:
        lines.append(f"deadline: {_shown(task.deadline)}")
    if task.context:
        # A first line that begins with spaces would be taken for the measure of all.
        lines += ["context: |2" if task.context[:1].isspace() else "context: |"]
        lines += [f"  {line}".rstrip() for line in task.context.split("\n")]
    lines += ["---", "", DESCRIPTION, task.description]
    if task.success_criteria:
        lines += ["", CRITERIA, task.success_criteria]
    text = "\n".join(lines) + "\n"
    read = parse_inbox(text)
    if (
        len(read.tasks) != 1
        or read.problems
        or read.tasks[0]._replace(line=0, text="") != task._replace(line=0, text="")
    ):
        why = f" ({read.problems[0].why})" if read.problems else ""
        raise ValueError(
            f"these words would not read back as one task{why}: lines '---', headings of the format and what no text "
            "holds cannot stand in them; say it in other words"
        )
    return text


def with_task(inbox: str, block: str) -> str:
    """With a block at the end; all that was there stays byte for byte."""
    gap = "" if not inbox or inbox.endswith("\n\n") else "\n" if inbox.endswith("\n") else "\n\n"
    return f"{inbox}{gap}{block}"


def without_task(inbox: str, id: str) -> str:
    """Without the block of this id that counts; all others stay byte for byte."""
    task = parse_inbox(inbox).find(id)
    if task is None:
        return inbox
    lines = inbox.split("\n")
    start = sum(len(line) + 1 for line in lines[: task.line - 1])
    return inbox[:start] + inbox[start + len(task.text) :]


def merged(base: str, ours: str, pms: str) -> str:
    """The PM's text, without the tasks that we took out since `base`, which both began with."""
    left = {task.id for task in parse_inbox(ours).tasks}
    for task in parse_inbox(base).tasks:
        theirs = parse_inbox(pms).find(task.id)
        if task.id not in left and theirs and theirs.digest == task.digest:
            pms = without_task(pms, task.id)
    return pms


def answered_in(paths: Iterable[str]) -> set[str]:
    """The tasks that have a file for their answer among these."""
    names = (path.rpartition("/") for path in paths)
    return {name.removesuffix(".md") for folder, _, name in names if folder in (COMPLETED, BLOCKED)}


def problem_with_agents_inbox(before: str, after: str, answered: Collection[str]) -> str:
    """Why the agent may not leave the file so; empty when it may: it takes blocks out that are `answered`, and does
    nothing else."""
    had = block_texts(before)
    for block in block_texts(after):
        if block not in had:
            id = next(iter(sorted(ids_in(block.partition("\n---")[0]))), "a task without an id")
            what = "changes" if any(id in ids_in(each.partition("\n---")[0]) for each in had) else "adds"
            return f"{INBOX}: it {what} {id}; tasks are the PM's, and the agent only takes out what is done"
    for id in (match[1] for block in set(had).difference(block_texts(after)) if (match := _ITS_ID.search(block))):
        if id not in answered:
            return f"{INBOX}: it takes {id} out without an answer; write {COMPLETED}/{id}.md, or {BLOCKED}/{id}.md"
    return ""


_ITS_ID = re.compile(rf"^task_id[ \t]*:[ \t]*[\"']?({TASK_ID.pattern})", re.MULTILINE)


def ids_in(text: str) -> set[str]:
    """Every id that a text mentions, in whatever way."""
    return set(TASK_ID.findall(text))


def next_id(used: set[str]) -> str:
    """One above the highest that was ever used."""
    highest = max((int(id.partition("-")[2]) for id in used), default=0)
    return f"TASK-{highest + 1:03}"


def _shown(at: float) -> str:
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    shown = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")  # years before 1000 come without their zeros
    return f"{shown}{f'.{moment.microsecond:06}' if moment.microsecond else ''}Z"
