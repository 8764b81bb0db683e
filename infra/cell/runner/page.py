"""COMMS.md of main, from the agent's side: read from origin; reports and ticks are handed to the git door as data.

Each goes through the queue of unsent reports, so that none is ever lost; handing one over twice leaves it there
once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from infra.cell.runner.events import Log
from infra.cell.runner.patience import PAUSES_SECONDS, patiently
from infra.cell.runner.unsent import Unsent, UnsentReports
from infra.shared import approvals, comms
from infra.shared.branches import MAIN
from infra.shared.comms import Directive
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.page_text import PAGE
from infra.shared.repository.tip import CloneTip, read_file
from infra.shared.requests import AgentReport, Done, Later, Refused, Reply, report_of


class Seen(NamedTuple):
    """COMMS.md as it was at one commit of main."""

    commit: str
    document: str
    missing: tuple[str, ...]
    """What it lacks: its sections, or itself."""

    @property
    def open(self) -> list[Directive]:
        """What there is to do; the PM's answers to what the agent asked are no work."""
        return [item for item in comms.open_directives(self.document) if not approvals.answers_in(item)]

    @property
    def directives_text(self) -> str:
        return comms.section_text(self.document, comms.DIRECTIVES)


class Page:
    """COMMS.md of main as a clone sees it. The keep alone writes it: `hand_over` gives a report to the git door."""

    def __init__(
        self,
        git: Git,
        unsent: UnsentReports,
        hand_over: Callable[[AgentReport], Reply],
        log: Log,
        pause: Callable[[float], None] = time.sleep,
        preface: str = "",
    ) -> None:
        """`preface` begins the text of every report."""
        self._git = git
        self._unsent = unsent
        self._hand_over = hand_over
        self._log = log
        self._pause = pause
        self._preface = preface

    def look(self) -> Seen:
        """Fetch main and read its page; what it lacks is filled in here and named. Raises GitError."""
        commit = patiently(CloneTip(self._git).look, self._pause)
        document = read_file(self._git, commit, PAGE)
        missing = (PAGE,) if document is None else tuple(_missing_sections(document))
        return Seen(commit, comms.with_sections(document or ""), missing)

    def report(self, title: str, text: str, ticks: tuple[str, ...] = ()) -> bool:
        """AgentReport, and tick directives with it; True when all reports are on main.

        What cannot be handed over now is handed over by a later `send`."""
        self._unsent.add(title, f"{self._preface}{text}", ticks)
        return self.send()

    def send(self) -> bool:
        """Hand over what is unsent, oldest first; True when nothing is left."""
        for report in self._unsent.oldest_first():
            match self._hand_over_patiently(report):
                case Done():
                    self._unsent.remove(report)
                    self._log.info("report.sent", title=report.title, ticked=list(report.ticks))
                case Refused(why):
                    self._unsent.set_aside(report)
                    self._log.error("report.refused", title=report.title, reason=why)
                case reply:
                    self._log.warning("report.not_sent", title=report.title, reason=str(reply))
                    return False
        return True

    def ticks_underway(self) -> set[str]:
        """Directives that are done, though main may not say so yet."""
        return {id for report in self._unsent.oldest_first() for id in report.ticks}

    def underway(self) -> list[Unsent]:
        """Reports that main may not have yet."""
        return self._unsent.oldest_first()

    def _hand_over_patiently(self, report: Unsent) -> Reply:
        home = (MAIN, self._git_head())
        request = report_of(report.id, report.at, report.title, report.text, report.ticks, home)
        for seconds in PAUSES_SECONDS:
            reply = self._try(request)
            if not isinstance(reply, Later):
                return reply
            self._pause(seconds)
        return self._try(request)

    def _try(self, request: AgentReport) -> Reply:
        try:
            return self._hand_over(request)
        except OSError as error:
            return Later(f"the git door does not answer: {error}")

    def _git_head(self) -> str:
        """For a report whose title names no version; the checkout may be ruined."""
        try:
            return self._git("rev-parse", "--verify", "HEAD")
        except GitError:
            return "0" * 40


def _missing_sections(document: str) -> list[str]:
    missing = []
    for section in (comms.DIRECTIVES, comms.REPORTS):
        try:
            comms.section_text(document, section)
        except comms.CommsError:
            missing.append(f"## {section}")
    return missing
