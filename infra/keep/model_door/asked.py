"""Which unit of work a call belongs to, from what the PM asked for: one unit is all that is done while the same
directives stay open on main, or for one task of the inbox.

The runner has no word in it. A new run, a restart or another branch leaves main's page as it is, and so the sum; the
agent can only tick directives, each once, and only the PM writes new ones. An answer of the PM's to a question is no
new work."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable

from infra.shared import approvals, comms
from infra.shared.branches import MAIN, MIND
from infra.shared.clock import timestamp
from infra.shared.comms import CommsError
from infra.shared.labels import TASK
from infra.shared.mind.inbox import parse_inbox
from infra.shared.mind.layout import INBOX
from infra.shared.repository.git import Git, GitError, GitLimits
from infra.shared.repository.page_text import PAGE
from infra.shared.safe_files import whole_file

LOOK_SECONDS = 5.0
PAGE_BYTES = 8 << 20
REF_BYTES = 1 << 10
UNKNOWN = "unknown"
"""The unit of all calls before the page could be read."""


def unit_of(page: str) -> str:
    """The name of the unit that is under way when main's page says so."""
    try:
        found = [directive for directive in comms.directives(page) if not approvals.answers_in(directive)]
    except CommsError:
        found = []
    done = Counter(each.text for each in found if each.done)
    # With how often it was done before, so that the same words said again are asked for anew.
    asked = sorted(f"{each.text}\0{done[each.text]}" for each in found if not each.done)
    return hashlib.sha256("\0\0".join(asked).encode(errors="surrogateescape")).hexdigest()[:32]


def unit_on_main(remote: str) -> Callable[[], str]:
    """Looks at the page of the bare repository when main has moved; when it cannot be read, the last one that could
    counts."""
    git = Git(remote, env={"GIT_DIR": remote}, limits=GitLimits(answer_bytes=PAGE_BYTES))
    last, read_at = UNKNOWN, b""

    def look() -> str:
        nonlocal last, read_at
        main = _loose_main(remote)
        if main and main == read_at:  # a commit's page never changes, and git is a process of some milliseconds
            return last
        # Of that very commit: main may move before git looks, and be put back to it later.
        at = main.decode(errors="replace").strip() or f"refs/heads/{MAIN}"
        try:
            page = git.raw("cat-file", "blob", f"{at}:{PAGE}", timeout=LOOK_SECONDS)
        except GitError:
            return last
        last, read_at = unit_of(page.decode(errors="surrogateescape")), main
        return last

    return look


def unit_of_task(inbox: str, id: str) -> str | None:
    """The name of the unit of a task of the inbox; None when it does not stand there. The agent can take tasks out, and
    neither add nor change one (`shared.mind.inbox`): only the PM makes units."""
    task = parse_inbox(inbox).find(id)
    if task is None:
        return None
    return hashlib.sha256(f"task\0{task.id}\0{task.digest}".encode()).hexdigest()[:32]


def task_on_mind(remote: str) -> Callable[[str], str | None]:
    """Looks at the inbox of the branch `mind`; None when it does not hold the task, or cannot be read."""
    git = Git(remote, env={"GIT_DIR": remote}, limits=GitLimits(answer_bytes=PAGE_BYTES))

    def look(id: str) -> str | None:
        try:
            inbox = git.raw("cat-file", "blob", f"refs/heads/{MIND}:{INBOX}", timeout=LOOK_SECONDS)
        except GitError:
            return None
        return unit_of_task(inbox.decode(errors="surrogateescape"), id)

    return look


def units_of(remote: str, unit: str | None = None) -> Callable[[str, str], str]:
    """The unit of a call by its label and task, as the bare repository has them now; or always `unit`, for a door whose
    caller works for no repository."""
    if unit is not None:
        return lambda label, task: unit
    directives, tasks = unit_on_main(remote), task_on_mind(remote)
    return lambda label, task: unit_for(label, task, timestamp(time.time())[:10], directives, tasks)


def unit_for(label: str, task: str, day: str, directives: Callable[[], str], tasks: Callable[[str], str | None]) -> str:
    """The unit of a call that the runner labels so. What is nobody's order has one for each UTC day: with a wrong label
    a cell wins that much, once, and nothing of the daily budget."""
    if label != TASK:
        return f"{label.partition('/')[0]} {day}"
    return (tasks(task) if task else None) or directives()


def _loose_main(remote: str) -> bytes:
    """The commit that main is at, when git keeps it in a file of its own; empty when it does not, or names another
    branch there, which moves by itself."""
    try:
        found = whole_file(f"{remote}/refs/heads/{MAIN}", REF_BYTES)
    except (OSError, ValueError):
        return b""
    return b"" if found.startswith(b"ref:") else found
