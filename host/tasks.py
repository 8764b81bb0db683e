"""`minifram task`: the PM's tasks on the branch of the mind: added, listed, shown and cancelled.

Each act is a commit of the PM's, and survives every race with the agent's own pushes."""

from __future__ import annotations

import datetime
import os
import sys
import time
from typing import NamedTuple

import click
import msgspec

from host.cli import agent_option, command
from host.errors import CommandError, not_found, usage
from host.home import AgentPaths, Context
from host.mind import mind_commit
from host.repository import edit_branch, open_as_pm, open_repository
from host.running import is_running
from host.screen import Say, Shown, bad, harmless, one_line, strong
from infra.cell.mind.tasks import TaskAnswer, TaskStatus, active_id, answer_text, read_answer
from infra.shared.branches import MIND
from infra.shared.mind.layout import ACTIVE, BLOCKED, COMPLETED, INBOX
from infra.shared.mind.tasks import (
    TASK_ID,
    Deadline,
    Priority,
    Task,
    ids_in,
    inbox_of,
    next_id,
    order,
    task_text,
    with_task,
    without_task,
)
from infra.shared.repository.git import Git
from infra.shared.repository.tip import list_tree, read_file
from infra.shared.safe_files import Below
from infra.shared.text import first_line

MAX_BYTES = 1 << 18
"""Of a task: it is read by a model."""
CANCELLED = "Cancelled by the PM."


class ListedTask(NamedTuple):
    id: str
    state: str
    """`open`, `active`, `blocked`, `complete`, `failed`, `cancelled`."""
    priority: str
    deadline: str
    """Empty for none."""
    words: str
    """The first line of what is to be done; of a blocked one, its question."""
    date: str = ""
    """Of the answer."""


@click.group("task")
def task() -> None:
    """Tasks for the agent, by priority and deadline; directives ('minifram tell') come before them."""


task.params.append(agent_option())


@command
@click.argument("text")
@click.option("--priority", type=click.Choice(["high", "medium", "low"]), default="medium", show_default=True)
@click.option("--deadline", default="", metavar="TIME", help="Like 2026-02-10T00:00:00Z.")
@click.option("--context", "background", default="", metavar="WORDS", help="Background and constraints.")
def add(context: Context, say: Say, text: str, priority: Priority, deadline: str, background: str) -> Shown:
    """Add a task to tasks/inbox.md of the branch mind, as a commit of yours.

    With '-', TEXT is read from standard input. What stands below a line '## Success criteria' in it are those.

    \b
    Examples:
      minifram task add "Write the report of the week." --priority high
      minifram task add - --deadline 2026-02-10T00:00:00Z < task.md
    """
    home, git = context.initialised(), open_as_pm(context)
    words = os.fsdecode(sys.stdin.buffer.read(MAX_BYTES + 1)) if text == "-" else text
    if len(words) + len(background) > MAX_BYTES:
        raise usage(f"the task is over {MAX_BYTES:,} bytes; put the rest into a file and push that")
    try:
        until = msgspec.convert(deadline, Deadline) if deadline else None
    except msgspec.ValidationError:
        raise usage(f"the deadline {deadline!a:.60} is no time; expected one like 2026-02-10T00:00:00Z") from None
    description, criteria = _parts(words)
    if not description:
        raise usage("the task is empty; say what the agent should do")
    used = ids_in(git("log", "--format=", "--patch", "--unified=0", "--no-ext-diff", mind_commit(git), "--", INBOX))
    id = ""

    def change(seen: str) -> tuple[dict[str, str | None], str]:
        nonlocal id
        inbox = _inbox(git, seen)
        id = next_id(used | ids_in(inbox) | _names(git, seen, COMPLETED) | _names(git, seen, BLOCKED))
        try:
            made = Task(
                task_id=id,
                priority=priority,
                deadline=until,
                context=background.strip("\n").rstrip(),
                description=description,
                criteria=criteria,
            )
            block = task_text(made)
        except ValueError as error:
            raise usage(str(error)) from None
        changed = with_task(inbox, block)
        if inbox_of(changed).find(id) is None:
            raise usage(f"the end of {INBOX} swallows what comes behind: close its fence or comment on branch {MIND}")
        return {INBOX: changed}, f"task: {id} {first_line(description)}"

    _, commit = edit_branch(git, MIND, change)
    if not is_running(home):
        say("the agent is not running; the task waits for it: 'minifram up'")
    return Shown({"commit": commit, "id": id}, f"added  {commit[:12]} task {id}")


@command
@click.option("-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="Of answered tasks.")
def tasks(context: Context, say: Say, number: int) -> Shown:
    """List what is active, open and blocked, and the last tasks that have their answer."""
    home = context.initialised()
    git = open_repository(home)
    seen = mind_commit(git)
    inbox = inbox_of(_inbox(git, seen))
    active, finished = _active(home), _names(git, seen, COMPLETED)
    waiting = [each for each in order(inbox.tasks, time.time()) if each.task_id not in finished]
    found = [_listed(git, seen, each, active) for each in waiting]
    found.sort(key=lambda each: ("active", "open", "blocked").index(each.state))
    for id in sorted(finished, key=lambda id: int(id.partition("-")[2]), reverse=True)[:number]:
        answer = read_answer(read_file(git, seen, f"{COMPLETED}/{id}.md") or "")
        state = _state(answer)
        found.append(ListedTask(id, state, "", "", first_line(answer.summary), answer.date))
    lines = [*(f"{bad('problem')}  {one_line(str(each), 300)}" for each in inbox.problems), *map(_line, found)]
    advice = "" if found else "there is no task: 'minifram task add' gives the agent one"
    return Shown({"tasks": found, "problems": [str(each) for each in inbox.problems]}, lines, advice)


def _line(each: ListedTask) -> str:
    state = f"{each.state:<9}"
    until = f"until {each.deadline}" if each.deadline else ""
    more = " · ".join(filter(None, (each.priority, until, one_line(each.date, 20))))
    shown = bad(state) if each.state in ("blocked", "failed") else state
    return f"{each.id}  {shown}  {one_line(each.words, 100)}  ({more})"


@command
@click.argument("id")
def show(context: Context, say: Say, id: str) -> Shown:
    """Show a task and the agent's answer to it."""
    home = context.initialised()
    git, id = open_repository(home), _known_id(id)
    seen = mind_commit(git)
    inbox = _inbox(git, seen)
    found = inbox_of(inbox).find(id)
    paths = (f"{directory}/{id}.md" for directory in (COMPLETED, BLOCKED))
    path, answer = next(((path, text) for path in paths if (text := read_file(git, seen, path)) is not None), ("", ""))
    if not path and not found:
        raise _not_open(id)
    read = read_answer(answer)
    state = _state(read) if path else "active" if _active(home) == id else "open"
    block = found.text if found else ""
    value = {"id": id, "state": state, "task": block, "answer": answer, "path": path}
    lines = [f"{strong(id)}  {state}{f'  {path}' if path else ''}", "", harmless((answer or block).rstrip())]
    advice = f"'minifram tell \"{id}: …\"' answers its question" if state == "blocked" else ""
    return Shown(value, lines, advice)


@command
@click.argument("id")
@click.argument("why", default="")
def cancel(context: Context, say: Say, id: str, why: str) -> Shown:
    """Take a task out of the inbox; a run that works on it is told."""
    git, id = open_as_pm(context), _known_id(id)
    mind_commit(git)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()

    def change(seen: str) -> tuple[dict[str, str | None], str]:
        inbox = _inbox(git, seen)
        found = inbox_of(inbox).find(id)
        if found is None:
            raise _not_open(id)
        summary = f"{CANCELLED} {why}".strip()
        note = TaskAnswer(id, TaskStatus.FAILED, today, summary, task=found.text, digest=found.digest)
        files = {INBOX: without_task(inbox, found), note.path: answer_text(note), f"{BLOCKED}/{id}.md": None}
        return files, f"task: {id} is cancelled"

    _, commit = edit_branch(git, MIND, change)
    return Shown({"commit": commit, "id": id}, f"cancelled  {commit[:12]} task {id}")


def _active(home: AgentPaths) -> str:
    """What the agent works on, by its own clone: it pushes the branch when a run has ended. Empty for nothing."""
    if not is_running(home):
        return ""
    return active_id(Below(home.places.mind).tail(ACTIVE, MAX_BYTES).decode(errors="replace"))


def _known_id(id: str) -> str:
    """`TASK-001` of `task-001` or `1`. Raises CommandError."""
    found = f"TASK-{int(id):03}" if id.isascii() and id.isdecimal() and len(id) < 10 else id.upper()
    if not TASK_ID.fullmatch(found):
        raise usage(f"{id!a} is no task; expected one like TASK-001: 'minifram task list'")
    return found


def _listed(git: Git, seen: str, found: Task, active: str) -> ListedTask:
    deadline = found.until
    asked = read_answer(read_file(git, seen, f"{BLOCKED}/{found.task_id}.md") or "")
    if found.task_id != active and asked.digest == found.digest:
        return ListedTask(found.task_id, "blocked", found.priority, deadline, first_line(asked.summary), asked.date)
    state = "active" if found.task_id == active else "open"
    return ListedTask(found.task_id, state, found.priority, deadline, first_line(found.description))


def _state(answer: TaskAnswer) -> str:
    is_cancelled = answer.status is TaskStatus.FAILED and answer.summary.startswith(CANCELLED)
    return "cancelled" if is_cancelled else answer.status.name.lower()


def _parts(words: str) -> tuple[str, str]:
    """Description and success criteria of what the PM typed."""
    block = inbox_of(f"---\ntask_id: TASK-0\npriority: low\n---\n{words.strip()}\n")
    found = block.find("TASK-0")
    return (found.description, found.criteria) if found and not block.problems else (words.strip(), "")


def _inbox(git: Git, seen: str) -> str:
    return read_file(git, seen, INBOX) or ""


def _not_open(id: str) -> CommandError:
    return not_found(f"{INBOX} of the branch {MIND} has no task {id} that can be read; see 'minifram task list'")


def _names(git: Git, seen: str, directory: str) -> set[str]:
    names = (name.rpartition("/")[2].removesuffix(".md") for name in list_tree(git, seen, f"{directory}/"))
    return {name for name in names if TASK_ID.fullmatch(name)}


for _each, _name in ((add, "add"), (tasks, "list"), (show, "show"), (cancel, "cancel")):
    task.add_command(_each, _name)
