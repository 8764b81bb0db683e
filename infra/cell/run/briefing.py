"""The briefing at the start of a run: `logs/now.md`, the runner's note to the model of where and when it is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from infra.cell.cell import Cell
from infra.cell.page import PageSeen
from infra.cell.tools.hop import fetch_all
from infra.cell.work.work import Work
from infra.shared.boot import Boot
from infra.shared.branches import MAIN, MIND
from infra.shared.paths import ASIDE
from infra.shared.text import first_line

NOW = "logs/now.md"

AUTONOMY = {
    "merge": "merge: a branch that proves itself is merged into main by the runner",
    "propose": "propose: push branches; only the PM moves main, except for reports",
    "frozen": "frozen: reports only; neither branches nor main may be pushed",
}


def text_of(context: Cell, seen: PageSeen, work: Work) -> str:
    """The briefing of a run on this work. What went wrong before stands in the watcher's report on the page. Raises
    GitError, OSError."""
    boot, git, main = context.boot, context.git, seen.commit
    fetch_all(git)
    behind, ahead = git("rev-list", "--left-right", "--count", f"{main}...HEAD").split()
    dirty = git("status", "--porcelain").splitlines()
    refs = git("for-each-ref", "--format=%(refname:lstrip=3)", f"--no-merged={main}", "refs/remotes/origin")
    unmerged = [name for name in refs.splitlines() if name not in (MAIN, MIND, "HEAD")]
    bot = boot.places.bot
    lines = [
        "# Now",
        "",
        f"- time: {context.now()}",
        f"- running: {boot.branch} at {context.head()}, started because: {boot.reason}",
        f"- autonomy: {AUTONOMY[boot.autonomy]}",
        f"- this checkout: {bot}/{boot.branch}/minifram, {ahead} commits ahead of main, {behind} behind, "
        f"{len(dirty)} files not committed",
        *_stand_in(boot),
        *_asides(boot),
        f"- branches not in main: {', '.join(unmerged) or 'none'}",
        *([f"- services: {context.services.words()}"] if context.services and context.services.words() else []),
        "",
        *_work(work, seen),
    ]
    return "\n".join(lines) + "\n"


def _work(work: Work, seen: PageSeen) -> Iterator[str]:
    """Directives stand on the page, which the model reads; a task is told here."""
    yield from ("## Your work", "", f"- {work.id}: {work.subject}" if work.is_directive else work.words)
    if others := [each for each in seen.open if each.id not in work.ticks]:
        yield from ("", "## Other open directives: each has a run of its own, your report ticks yours alone", "")
        yield from (f"- {each.id}: {first_line(each.text)}" for each in others)


def _asides(boot: Boot) -> Iterator[str]:
    """What main's clone held before another version led lies there."""
    above = os.path.dirname(boot.places.main_checkout)
    with contextlib.suppress(OSError):
        found = sorted(f"{above}/{name}" for name in os.listdir(above) if name.startswith(ASIDE))
        if found:
            yield f"- clones of main from before, with what was never pushed (the newest last): {', '.join(found)}"


def _stand_in(boot: Boot) -> Iterator[str]:
    if boot.instead_of:
        what = "safe mode, the PM's own copy of the program," if boot.is_safe_mode else "something older"
        yield f"- main at {boot.instead_of[:12]} is blocked: it failed to start, and {what} runs in its place."
        yield "  To mend it: a branch from origin/main, then bootstrap; or rollback. Commit nothing in this checkout."
