"""The PM's tasks on the branch of the mind: added, listed, shown and cancelled. Each act is a commit of the PM's, and
survives every race with the agent's own pushes."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import NamedTuple

from host.errors import CommandError, not_found, usage
from host.repository.mind import REF, mind_commit
from infra.shared.branches import MIND
from infra.shared.mind.answers import TaskAnswer, TaskStatus, active_id, answer_text, read_answer
from infra.shared.mind.inbox import TASK_ID, InboxProblem, TaskBlock, deadline_of, order, parse_inbox
from infra.shared.mind.inbox_edits import ids_in, next_id, task_text, with_task, without_task
from infra.shared.mind.layout import ACTIVE, BLOCKED, COMPLETED, INBOX
from infra.shared.report_titles import first_line
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import BareTip, advance, commit_tree, list_tree, read_file, tree_with, write_file

MAX_BYTES = 1 << 18
"""Of a task: it is read by a model."""
CANCELLED = "Cancelled by the PM."


class NewTask(NamedTuple):
    commit: str
    id: str
    problems: tuple[str, ...]
    """With other blocks of the inbox."""


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


class TaskList(NamedTuple):
    tasks: tuple[ListedTask, ...]
    """What is to be done first, the next one at the top; then what has its answer, the newest first."""
    problems: tuple[str, ...]


class ShownTask(NamedTuple):
    id: str
    state: str
    task: str
    """The block; empty when it has left the inbox."""
    answer: str
    path: str
    """Of the answer."""


def add_task(git: Git, words: str, priority: str, deadline: str, context: str) -> NewTask:
    """Raises CommandError for words that cannot be a task."""
    if len(words) + len(context) > MAX_BYTES:
        raise usage(f"the task is over {MAX_BYTES:,} bytes; put the rest into a file and push that")
    try:
        until = deadline_of(deadline) if deadline else None
    except ValueError as error:
        raise usage(f"the deadline {error}") from None
    description, criteria = _parts(words)
    if not description:
        raise usage("the task is empty; say what the agent should do")
    mind_commit(git)
    used = _ids_of_history(git)
    id, problems = "", tuple[InboxProblem, ...]()

    def change(seen: str, inbox: str) -> dict[str, str | None]:
        nonlocal id, problems
        problems = parse_inbox(inbox).problems
        id = next_id(used | ids_in(inbox) | _answered(git, seen))
        task = TaskBlock(id, priority, until, context.strip("\n").rstrip(), description, criteria, 1)
        try:
            block = task_text(task)
        except ValueError as error:
            raise usage(str(error)) from None
        changed = with_task(inbox, block)
        if parse_inbox(changed).find(id) is None:
            raise usage(
                f"{INBOX} has something at its end that swallows what comes behind: {_first(changed)}; repair it "
                f"on the branch {MIND}"
            )
        return {INBOX: changed}

    commit = _changed(git, change, lambda: f"task: {id} {first_line(description)}")
    return NewTask(commit, id, tuple(map(str, problems)))


def cancel_task(git: Git, id: str, why: str = "") -> str:
    """Take it out of the inbox, with a note in its answer; gives the commit. Raises CommandError."""
    id = known_id(id)
    mind_commit(git)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()

    def change(seen: str, inbox: str) -> dict[str, str | None]:
        task = parse_inbox(inbox).find(id)
        if task is None:
            raise _not_open(git, seen, inbox, id)
        summary = f"{CANCELLED} {why}".strip()
        note = TaskAnswer(id, TaskStatus.FAILED, today, summary, task=task.text, digest=task.digest)
        blocked = f"{BLOCKED}/{id}.md"
        gone: dict[str, str | None] = {blocked: None} if read_file(git, seen, blocked) is not None else {}
        return {INBOX: without_task(inbox, id), note.path: answer_text(note)} | gone

    return _changed(git, change, lambda: f"task: {id} is cancelled")


def list_tasks(git: Git, now: float, most_answered: int) -> TaskList:
    """Raises CommandError for an agent without a mind."""
    seen = mind_commit(git)
    inbox = parse_inbox(read_file(git, seen, INBOX) or "")
    active, finished = active_id(read_file(git, seen, ACTIVE) or ""), _names(git, seen, COMPLETED)
    waiting = [task for task in order(inbox.tasks, now) if task.id not in finished]
    found = [_listed(git, seen, task, active) for task in waiting]
    found.sort(key=lambda each: ("active", "open", "blocked").index(each.state))
    answered = []
    for id in sorted(finished, key=_number, reverse=True)[:most_answered]:
        answer = read_answer(read_file(git, seen, f"{COMPLETED}/{id}.md") or "")
        answered.append(
            ListedTask(id, _state(answer.status, answer.question), "", "", first_line(answer.question), answer.date)
        )
    return TaskList((*found, *answered), tuple(map(str, inbox.problems)))


def show_task(git: Git, id: str) -> ShownTask:
    """Raises CommandError for one that is nowhere."""
    id = known_id(id)
    seen = mind_commit(git)
    task = parse_inbox(read_file(git, seen, INBOX) or "").find(id)
    for directory in (COMPLETED, BLOCKED):
        path = f"{directory}/{id}.md"
        answer = read_file(git, seen, path)
        if answer is not None:
            read = read_answer(answer)
            return ShownTask(id, _state(read.status, read.question), task.text if task else "", answer, path)
    if task is None:
        raise _not_open(git, seen, read_file(git, seen, INBOX) or "", id)
    active = active_id(read_file(git, seen, ACTIVE) or "")
    return ShownTask(id, "active" if active == id else "open", task.text, "", "")


def known_id(id: str) -> str:
    """`TASK-001` of `task-001` or `1`. Raises CommandError."""
    found = f"TASK-{int(id):03}" if id.isascii() and id.isdecimal() and len(id) < 10 else id.upper()
    if not TASK_ID.fullmatch(found):
        raise usage(f"{id!a} is no task; expected one like TASK-001: 'minifram task list'")
    return found


def _listed(git: Git, seen: str, task: TaskBlock, active: str) -> ListedTask:
    until = datetime.datetime.fromtimestamp(task.deadline, datetime.UTC) if task.deadline is not None else None
    deadline = f"{until:%Y-%m-%dT%H:%M:%S}Z" if until else ""
    asked = read_answer(read_file(git, seen, f"{BLOCKED}/{task.id}.md") or "")
    if task.id != active and asked.status is TaskStatus.BLOCKED and asked.digest == task.digest:
        return ListedTask(task.id, "blocked", task.priority, deadline, first_line(asked.question), asked.date)
    state = "active" if task.id == active else "open"
    return ListedTask(task.id, state, task.priority, deadline, first_line(task.description))


def _state(status: TaskStatus | None, summary: str) -> str:
    if status is TaskStatus.FAILED:
        return "cancelled" if summary.startswith(CANCELLED) else "failed"
    return "blocked" if status is TaskStatus.BLOCKED else "complete"


def _parts(words: str) -> tuple[str, str]:
    """Description and success criteria of what the PM typed."""
    block = parse_inbox(f"---\ntask_id: TASK-0\npriority: low\n---\n{words.strip()}\n")
    task = block.find("TASK-0")
    return (task.description, task.success_criteria) if task and not block.problems else (words.strip(), "")


def _changed(git: Git, change: Callable[[str, str], dict[str, str | None]], message: Callable[[], str]) -> str:
    """Raises CommandError."""

    def next_commit(seen: str) -> str:
        files = change(seen, read_file(git, seen, INBOX) or "")
        blobs = {path: None if text is None else write_file(git, text) for path, text in files.items()}
        return commit_tree(git, tree_with(git, seen, blobs), (seen,), message())

    return advance(BareTip(git, MIND), next_commit)


def _not_open(git: Git, seen: str, inbox: str, id: str) -> CommandError:
    problem = next((each for each in parse_inbox(inbox).problems if each.id == id), None)
    if problem:
        return usage(f"{id} cannot be read: {problem}; edit it on the branch {MIND}")
    if id in _names(git, seen, COMPLETED):
        return usage(f"{id} has its answer already: 'minifram task show {id}'")
    return not_found(f"{INBOX} of the branch {MIND} has no task {id}; 'minifram task list' shows all")


def _answered(git: Git, seen: str) -> set[str]:
    return _names(git, seen, COMPLETED) | _names(git, seen, BLOCKED)


def _names(git: Git, seen: str, directory: str) -> set[str]:
    names = (name.rpartition("/")[2].removesuffix(".md") for name in list_tree(git, seen, f"{directory}/"))
    return {name for name in names if TASK_ID.fullmatch(name)}


def _ids_of_history(git: Git) -> set[str]:
    """Ids that ever stood in the inbox. Of a history too long to read, what it holds now must do."""
    try:
        return ids_in(
            git("log", "--format=", "--patch", "--unified=0", "--no-color", "--no-ext-diff", REF, "--", INBOX)
        )
    except GitError:
        return set()


def _number(id: str) -> int:
    return int(id.partition("-")[2])


def _first(inbox: str) -> str:
    return next((str(each) for each in parse_inbox(inbox).problems), "an open fence or comment")
