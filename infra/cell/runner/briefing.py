"""The briefing at the start of a run: `logs/now.md`, the runner's note to the model of where and when it is.

The text is made from facts by a pure function; gathering the facts reads the clones and logs of this cell."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from infra.cell.loop.hop_tools import fetch_all
from infra.cell.runner import handover_note
from infra.cell.runner.context import RunnerContext
from infra.shared.branches import MAIN, MIND, problem_with_branch
from infra.shared.comms import Directive
from infra.shared.places import BOOT_LOG, ERROR_LOG
from infra.shared.report_titles import first_line

NOW = "logs/now.md"
BOOT_LINES, ERROR_LINES = 6, 30
TAIL_BYTES = 64 * 1024


class Facts(NamedTuple):
    time: str
    branch: str
    commit: str
    reason: str
    """Why this runner was started."""
    autonomy: str
    bot: str
    remote_url: str
    standing: str
    """The checkout compared with main."""
    tasks: tuple[Directive, ...]
    unmerged: tuple[str, ...]
    """Branches of origin that main does not hold."""
    boot_lines: tuple[str, ...]
    error_lines: tuple[str, ...]
    """The last words of a runner that failed, if one did."""
    error_log: str
    instead_of: str = ""
    """The commit of a blocked main, which this runner stands in for; empty for none."""
    safe_mode: bool = False
    handed_over: bool = False
    """An earlier run on these directives had no room left, and wrote down what it knew."""


_AUTONOMY = {
    "merge": "merge: a branch that proves itself is merged into main by the runner",
    "propose": "propose: push branches; only the PM moves main, except for reports",
    "frozen": "frozen: reports only; neither branches nor main may be pushed",
}


def text_of(facts: Facts) -> str:
    lines = [
        "# Now",
        "",
        f"- time: {facts.time}",
        f"- running: {facts.branch} at {facts.commit}, started because: {facts.reason}",
        f"- autonomy: {_AUTONOMY.get(facts.autonomy, facts.autonomy)}",
        f"- this checkout: {facts.bot}/{facts.branch}/minifram, {facts.standing}",
        f"- a branch's clone: git clone -b BRANCH {facts.remote_url} {facts.bot}/BRANCH/minifram",
        f"  (a new branch: leave out -b BRANCH, then git -C {facts.bot}/BRANCH/minifram checkout -b BRANCH)",
        *_stand_in(facts),
        f"- branches not in main: {', '.join(facts.unmerged) or 'none'}",
        "",
        "## Open directives",
        "",
        *(f"- {task.id}: {first_line(task.text)}" for task in facts.tasks),
        *_handed_over(facts),
        "",
        "## Last boots",
        "",
        *(f"    {line}" for line in facts.boot_lines),
    ]
    if facts.error_lines:
        lines += ["", f"## Last lines of {facts.error_log}", "", *(f"    {line}" for line in facts.error_lines)]
    return "\n".join(lines) + "\n"


def _stand_in(facts: Facts) -> Iterator[str]:
    if facts.instead_of:
        what = "safe mode, the PM's own copy of the program," if facts.safe_mode else "something older"
        yield f"- main at {facts.instead_of[:12]} is blocked: it failed to start, and {what} runs in its place."
        yield "  To mend it: a branch from origin/main, then bootstrap; or rollback. Commit nothing in this checkout."


def _handed_over(facts: Facts) -> Iterator[str]:
    if facts.handed_over:
        yield ""
        yield "An earlier run worked on these until its conversation grew too long. What is done, what is open and what"
        yield f"was learnt is in {handover_note.NOTE}: read it first, check that it still holds, and go on."


def gather(context: RunnerContext, main: str, tasks: Sequence[Directive], look_back: bool) -> Facts:
    """The facts of now; `look_back` asks for the last words of a failed runner as well. Raises GitError, OSError."""
    boot = context.boot
    fetch_all(context.git)
    failed = _failed_checkout(context) if look_back else None
    error_log = os.path.join(failed, ERROR_LOG) if failed else ""
    return Facts(
        time=context.now(),
        branch=boot.branch,
        commit=context.head(),
        reason=boot.reason,
        autonomy=boot.autonomy,
        bot=boot.places.bot,
        remote_url=boot.remote_url,
        standing=_standing(context, main),
        tasks=tuple(tasks),
        unmerged=_unmerged(context, main),
        instead_of=boot.instead_of,
        safe_mode=boot.is_safe_mode,
        boot_lines=tuple(_last_lines(os.path.join(context.checkout, BOOT_LOG), BOOT_LINES)),
        error_lines=tuple(line for line in _last_lines(error_log, ERROR_LINES) if boot.id not in line)
        if failed
        else (),
        error_log=error_log,
        handed_over=handover_note.exists(context, tasks),
    )


def _standing(context: RunnerContext, main: str) -> str:
    behind, ahead = context.git("rev-list", "--left-right", "--count", f"{main}...HEAD").split()
    dirty = context.git("status", "--porcelain").splitlines()
    return f"{ahead} commits ahead of main, {behind} behind, {len(dirty)} files not committed"


def _unmerged(context: RunnerContext, main: str) -> tuple[str, ...]:
    names = context.git(
        "for-each-ref", "--format=%(refname:lstrip=3)", f"--no-merged={main}", "refs/remotes/origin"
    ).splitlines()
    return tuple(name for name in names if name not in (MAIN, MIND, "HEAD"))


def _failed_checkout(context: RunnerContext) -> str | None:
    """Whose errors explain this start: the branch that its reason names, or else this checkout's own last run."""
    reason = context.boot.reason
    if not reason.startswith(("fallback", "restart")):
        return None
    words = {word.strip(".,:;'\"()").partition("@")[0] for word in reason.split()}
    for branch in sorted(words - {MAIN}):
        if problem_with_branch(branch) is None and os.path.isdir(context.boot.places.checkout(branch)):
            return context.boot.places.checkout(branch)
    return context.checkout


def _last_lines(path: str, count: int) -> Iterator[str]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            tail = file.read(TAIL_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return
    yield from (line[:1000] for line in tail.splitlines()[-count:])
