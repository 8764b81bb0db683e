"""What a runner of the version before pushes onto the page, taken as data.

Such a runner writes its reports into COMMS.md itself and pushes that. The push is refused, since the keep alone
writes there, and its new reports and ticks are handed to the request socket; the runner, refused, looks at main again,
finds its report there and takes it for sent. Any other change of the page has no effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from infra.keep.git_door.decide import MAIN_REF, Update
from infra.shared import comms
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.repository.git import Git
from infra.shared.repository.page_text import PAGE, PAGES
from infra.shared.repository.tip import read_file
from infra.shared.requests import AgentReport, Later, Refused, Reply, RequestError, id_of_heading, is_time, report_of

MOST_REPORTS = 20


class OldPush(NamedTuple):
    before: str
    after: str
    commit: str


def old_push(git: Git, update: Update) -> OldPush | None:
    """The page of this push, when it is one of main that changes pages and nothing else. Raises GitError."""
    if update.ref != MAIN_REF or not update.old or not update.new or not update.descends:
        return None
    if not update.new_commits or any(not commit.touched <= set(PAGES) for commit in update.new_commits):
        return None
    before, after = (read_file(git, commit, PAGE) or "" for commit in (update.old, update.new))
    return OldPush(before, after, update.old) if before != after else None


def reports_in(push: OldPush, now: float) -> list[AgentReport]:
    """The reports that are new in it; the ticks go with the last one."""
    before, after = (comms.with_sections(text) for text in (push.before, push.after))
    known = {_heading(report) for report in comms.reports(before)}
    new = [report for report in comms.reports(after) if _heading(report) not in known][:MOST_REPORTS]
    found = [report for text in new if (report := _report(text, push.commit, now))]
    done = {wish.id for wish in comms.directives(after) if wish.done}
    ticks = tuple(dict.fromkeys(wish.id for wish in comms.open_directives(before) if wish.id in done))
    if ticks and not found:
        at, title = timestamp(now), f"ticked in {PAGE}, without a report"
        found = [report_of(id_of_heading(at, title), at, title, "", (), (MAIN, push.commit))]
    return [*found[:-1], found[-1]._replace(ticks=ticks)] if found else []


def _report(text: str, commit: str, now: float) -> AgentReport | None:
    heading, _, body = text.partition("\n")
    at, _, title = heading.removeprefix("### ").partition(" ")
    if not title.strip():
        return None
    if not is_time(at):
        at, title = timestamp(now), f"{at} {title}"
    return report_of(id_of_heading(at, title), at, title, body.strip(), (), (MAIN, commit))


def hand_over(push: OldPush, ask: Callable[[AgentReport], Reply], now: float) -> str:
    """Hand all of it over; gives the words for the refusal. Raises OSError."""
    reports = reports_in(push, now)
    for report in reports:
        try:
            reply = ask(report)
            why = reply.why if isinstance(reply, Refused | Later) else ""
        except RequestError as error:
            why = str(error)
        if why:
            return f"the report {report.whole_title[:100]!r} was not taken: {why}"
    if not reports:
        return "nothing of it is a new report or a tick; take the page as it is on main"
    ticks = sum(len(report.ticks) for report in reports)
    return f"{len(reports)} new reports and {ticks} ticks of it were taken as data and stand on main (git fetch)"


def _heading(report: str) -> str:
    return report.partition("\n")[0]
