"""Which task of the inbox, or open question of its own, the cell works on, as it said before it began: a file in the
keep's var. By it the taint of that work ends with the task's report, as it does with the tick of a directive.

What is said counts only while it wins nothing: of work that has read the web nobody can say that it is another task,
as long as its own stands in the inbox and could be gone on with. A run on a question is never gone on with, so that
work ends when the cell says so, or names any other: it wins the restart that ends all of it."""

from __future__ import annotations

from collections.abc import Collection

from infra.shared.branches import MIND
from infra.shared.files import write_whole
from infra.shared.mind.inbox import TASK_ID, parse_inbox
from infra.shared.mind.layout import INBOX, OPEN_QUESTIONS
from infra.shared.mind.questions import QUESTION_ID, open_questions
from infra.shared.repository.git import Git, GitError
from infra.shared.requests import NO_TASK
from infra.shared.safe_files import whole_file
from infra.shared.taint.machine import TaintState

NAME = "work"
_MOST_BYTES = 100
_INBOX_BYTES = 8 << 20


def under_way(var: str) -> str:
    """The task; empty for none."""
    try:
        found = whole_file(f"{var}/{NAME}", _MOST_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
    return found if TASK_ID.fullmatch(found) or is_question(found) else ""


def is_question(task: str) -> bool:
    return bool(QUESTION_ID.fullmatch(task))


def tasks_on_mind(git: Git) -> frozenset[str]:
    """What stands in the inbox of the branch `mind`, and its open questions; nothing without them. Raises GitError."""
    tasks, questions = parse_inbox(_on_mind(git, INBOX)).tasks, open_questions(_on_mind(git, OPEN_QUESTIONS))
    return frozenset((*(task.id for task in tasks), *(question.id for question in questions)))


def _on_mind(git: Git, path: str) -> str:
    try:
        found = git.saying_at_most(_INBOX_BYTES).raw("cat-file", "blob", f"refs/heads/{MIND}:{path}")
    except GitError as error:
        if error.is_machines:
            raise
        return ""
    return found.decode(errors="surrogateescape")


def may_begin(task: str, before: str, open_tasks: Collection[str], taint: TaintState, is_restarted: bool) -> bool:
    """Whether work on this task may count as such, or as that on none. `before`: the one that counts now;
    `is_restarted`: every process of the cell has ended since work that had read the web was reported. Pure."""
    now = taint.now
    if task == NO_TASK:
        return now is None
    if task not in open_tasks:
        return False
    if now is None:
        return True
    if now.over:
        return is_restarted
    # No report tells when work on a question is over: it takes over the taint of none.
    return before not in open_tasks and not is_question(task)


def begin(var: str, task: str) -> None:
    """Raises OSError."""
    words = "" if task == NO_TASK else task
    if words != under_way(var):
        write_whole(f"{var}/{NAME}", f"{words}\n".encode(), mode=0o600)


def is_done(var: str, git: Git, tasks: Collection[str]) -> bool:
    """Whether a report of these tasks ends the work: it is on one of them, and that has left the inbox. Raises
    GitError."""
    task = under_way(var)
    return bool(task) and task in tasks and task not in tasks_on_mind(git)
