"""COMMS.md of main, from the agent's side: read from origin, changed by commits on top of what is there (DESIGN §3).

Every change goes with a report and through the queue of unsent reports, so that none is ever lost; sending one
twice leaves it there once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from infra.contract import approvals, comms
from infra.contract.comms import Directive
from infra.life.events import Log
from infra.life.patience import patiently, refused, words_of
from infra.life.unsent import Unsent, UnsentReports
from infra.repository.git import Git, GitError
from infra.repository.merge import PAGE
from infra.repository.tip import CloneTip, TipBusy, advance, edit_file, read_file


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
    """COMMS.md of main as a clone sees it; `git` commits as the agent."""

    def __init__(self, git: Git, unsent: UnsentReports, log: Log, pause: Callable[[float], None] = time.sleep) -> None:
        self._git = git
        self._unsent = unsent
        self._log = log
        self._pause = pause

    def look(self) -> Seen:
        """Fetch main and read its page; what it lacks is filled in here and named. Raises GitError."""
        commit = patiently(CloneTip(self._git).look, self._pause)
        document = read_file(self._git, commit, PAGE)
        missing = (PAGE,) if document is None else tuple(_missing_sections(document))
        return Seen(commit, comms.with_sections(document or ""), missing)

    def report(self, title: str, text: str, ticks: tuple[str, ...] = ()) -> bool:
        """Append a report and tick directives, in one commit; True when all reports are on main.

        What cannot be sent now is sent by a later `send`."""
        self._unsent.add(title, text, ticks)
        return self.send()

    def send(self) -> bool:
        """Send what is unsent, oldest first; True when nothing is left."""
        for report in self._unsent.oldest_first():
            try:
                patiently(self._sending(report), self._pause)
            except (GitError, TipBusy, OSError) as error:
                self._log.warning("report.not_sent", title=report.title, error=str(error))
                if not isinstance(error, GitError) or not refused(error):
                    return False
                return self._send_refusal(report, words_of(error))
            self._unsent.remove(report)
            self._log.info("report.sent", title=report.title, ticked=list(report.ticks))
        return True

    def ticks_underway(self) -> set[str]:
        """Directives that are done, though main may not say so yet."""
        return {id for report in self._unsent.oldest_first() for id in report.ticks}

    def underway(self) -> list[Unsent]:
        """Reports that main may not have yet."""
        return self._unsent.oldest_first()

    def _sending(self, report: Unsent) -> Callable[[], str]:
        def edit(document: str) -> str:
            document = comms.with_sections(document)
            if _heading(report) not in (known.split("\n")[0] for known in comms.reports(document)):
                document = comms.add_report(document, report.title, report.text, report.at)
            return comms.tick(document, report.ticks)

        return lambda: advance(CloneTip(self._git), edit_file(self._git, PAGE, edit, f"report: {report.title}\n"))

    def _send_refusal(self, report: Unsent, words: str) -> bool:
        """The door will never take this report: say so in its place, once."""
        if report.text.startswith(_REFUSED):
            return False
        self._unsent.replace(report, report.title, f"{_REFUSED}\n\n{words}")
        return self.send()


_REFUSED = "The git door refused the text of this report; it is kept in .unsent/ beside the clones. The door said:"


def _heading(report: Unsent) -> str:
    """The first line of the report as it stands on the page; no other report has it, since none has its time."""
    alone = comms.add_report(comms.with_sections(""), report.title, "", report.at)
    return comms.reports(alone)[0].split("\n")[0]


def _missing_sections(document: str) -> list[str]:
    missing = []
    for section in (comms.DIRECTIVES, comms.REPORTS):
        try:
            comms.section_text(document, section)
        except comms.CommsError:
            missing.append(f"## {section}")
    return missing
