"""The directives of the page, in their order, each a run of its own."""

from __future__ import annotations

from collections.abc import Iterator

from infra.cell.page import PageSeen
from infra.cell.tools.hop import fetch_all
from infra.cell.work import report
from infra.cell.work.tasks import Tasks
from infra.cell.work.work import Over, Report, Work, WorkSource
from infra.shared import comms
from infra.shared.branches import MAIN, version
from infra.shared.people import LOOKED_BACK, is_the_pms
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.text import first_line


class Directives(WorkSource):
    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    def open(self, seen: PageSeen) -> Iterator[Work]:
        for each in seen.open:
            if not self._tasks.is_answer(each.text):
                yield Work(each.id, first_line(each.text), each.text, each.text, ticks=(each.id,))

    def news(self, work: Work, seen: PageSeen) -> tuple[str, Work]:
        if not work.ticks or work.id in {each.id for each in seen.open}:
            return "", work
        words = f"The PM has taken back or changed the directive {work.id}, which this run is for"
        return f"{words}: end your turn with a short report of how far you came.", work._replace(ticks=())

    def end(self, work: Work, over: Over) -> Report | None:
        return report.of(work, over)


def awaits_review(git: Git, document: str, branch: str) -> bool:
    """Whether origin has this branch, main does not, and the keep has found it good. Raises GitError."""
    fetch_all(git)
    tip = resolve_commit(git, f"refs/remotes/origin/{branch}")
    if tip is None or git.ok("merge-base", "--is-ancestor", tip, f"refs/remotes/origin/{MAIN}"):
        return False
    return any(f"{version(branch, tip)} validated: " in each.partition("\n")[0] for each in comms.reports(document))


def pm_has_moved(git: Git, before: str, now: str) -> bool:
    """Whether main at `now` has a commit of the PM's that it had not at `before`.

    The agent's and the keep's own commits, such as reports, are no news: a runner that took them for news would ask
    the model again after each report of its own, without end."""
    if before == now:
        return False
    try:
        emails = git(
            "log", f"--max-count={LOOKED_BACK}", "--encoding=UTF-8", "--format=%ce", now, f"^{before}", "--"
        ).splitlines()
    except GitError:  # what main held before is gone: only the PM can do that
        return True
    return not emails or any(map(is_the_pms, emails))
