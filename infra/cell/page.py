"""COMMS.md of main, from the agent's side: read from origin; reports and ticks go to the git door as requests.

Each report is in the state before the first attempt to send it and leaves it after the last, so none is lost; sending
one twice leaves it on the page once."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from infra.cell.clone_tip import CloneTip, retried
from infra.cell.doors import Refused
from infra.cell.log import Log
from infra.cell.report_titles import about as about_line
from infra.cell.state import State, UnsentReport
from infra.shared import approvals, comms
from infra.shared.branches import MAIN, problem_with_branch
from infra.shared.clock import timestamp
from infra.shared.comms import Directive
from infra.shared.door import DoorAway
from infra.shared.paths import PAGE
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import read_file
from infra.shared.requests import MAX_TICKS, TEXT_CHARS, TITLE_CHARS, Done, Report
from infra.shared.secret_shapes import redacted_and_cut


class PageSeen(NamedTuple):
    """COMMS.md as it was at one commit of main."""

    commit: str
    document: str
    missing: tuple[str, ...]
    """What it lacks: its sections, or itself."""

    @property
    def open(self) -> list[Directive]:
        """What there is to do; the PM's answers to questions of the agent are no work."""
        return [item for item in comms.open_directives(self.document) if not approvals.answers_in(item.text)]

    @property
    def directives_text(self) -> str:
        return comms.section_text(self.document, comms.DIRECTIVES)


class Page:
    """COMMS.md of main as a clone sees it. The keep alone writes it: `hand_over` gives a report to the git door."""

    def __init__(
        self,
        git: Git,
        state: State,
        hand_over: Callable[[Report], Done],
        log: Log,
        pause: Callable[[float], None] = time.sleep,
        preface: str = "",
        wall_seconds: Callable[[], float] = time.time,
    ) -> None:
        """`preface` begins the text of every report."""
        self._git = git
        self._state = state
        self._hand_over = hand_over
        self._log = log
        self._pause = pause
        self._preface = preface
        self._wall_seconds = wall_seconds

    def look(self) -> PageSeen:
        """Fetch main and read its page; missing sections are filled in here and named. Raises GitError."""
        commit = retried(CloneTip(self._git).look, self._pause)
        document = read_file(self._git, commit, PAGE)
        missing = (PAGE,) if document is None else tuple(_missing_sections(document))
        return PageSeen(commit, comms.with_sections(document or ""), missing)

    def report(self, title: str, text: str, ticks: tuple[str, ...] = (), about: tuple[str, ...] = ()) -> bool:
        """Report, and tick directives with it; True when all reports are on main. `about`: directives that stay open.

        What cannot be sent now is sent by a later `send`."""
        self.add(title, text, ticks, about=about)
        return self.send()

    def add(
        self,
        title: str,
        text: str,
        ticks: tuple[str, ...] = (),
        tasks: tuple[str, ...] = (),
        about: tuple[str, ...] = (),
    ) -> None:
        """Put a report into the queue, on the disk; `tasks` of the inbox are done with it."""
        unsent, at = self._state.memory.unsent, self._wall_seconds()
        while timestamp(at) in (report.at for report in unsent):
            at += 0.001
        text = f"{self._preface}{text}"
        if ids := (*ticks, *about):
            text = f"{about_line(ids)}\n\n{text}"
        # A model may speak half a character, which UTF-8 cannot hold.
        title, text = (words.encode(errors="replace").decode() for words in (title, text))
        report = UnsentReport(timestamp(at), title, text, ticks, secrets.token_hex(16), tasks)
        self._state.change(unsent=tuple(sorted((*unsent, report), key=lambda each: each.at)))

    def send(self) -> bool:
        """Send what is unsent, oldest first; True when nothing is left."""
        self._state.save()
        for report in self._state.memory.unsent:
            try:
                self._hand_over(request_of(report, (MAIN, self._git_head())))
                self._log.info("report.sent", title=report.title, ticked=list(report.ticks))
            except (Refused, ValueError) as no:
                self._log.error("report.refused", reason=str(no), title=report.title, text=report.text)
            except DoorAway as error:
                self._log.warning("report.not_sent", title=report.title, reason=str(error))
                return False
            self._state.change(unsent=self._state.memory.unsent[1:])
        return True

    def ticks_underway(self) -> set[str]:
        """Directives that are done, though main may not say so yet."""
        return {id for report in self._state.memory.unsent for id in (*report.ticks, *report.tasks)}

    def _git_head(self) -> str:
        """For a report whose title names no version; the checkout may be ruined."""
        try:
            return self._git("rev-parse", "--verify", "HEAD")
        except GitError:
            return "0" * 40


def request_of(report: UnsentReport, at_home: tuple[str, str]) -> Report:
    """The heading `branch@commit words` is taken apart; one without gets the branch and commit `at_home`. What is
    longer than a request may be is cut."""
    heading, text = report.title, report.text
    match = _HEADING.fullmatch(heading)
    if match and not problem_with_branch(match["branch"]):
        at_home, heading = (match["branch"], match["commit"]), match["words"]
    if len(text) > TEXT_CHARS:
        text = f"{redacted_and_cut(text, TEXT_CHARS - 100)}\n\n[…] The rest is not in any report."
    title = redacted_and_cut(heading, TITLE_CHARS)
    return Report(report.id, *at_home, title, text, report.ticks[:MAX_TICKS], report.tasks[:MAX_TICKS])


_HEADING = re.compile(r"(?P<branch>\S+)@(?P<commit>[0-9a-f]{7,64}) (?P<words>.*)", re.DOTALL)


def _missing_sections(document: str) -> list[str]:
    missing = []
    for section in (comms.DIRECTIVES, comms.REPORTS):
        try:
            comms.section_text(document, section)
        except comms.CommsError:
            missing.append(f"## {section}")
    return missing
