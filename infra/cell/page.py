"""COMMS.md of main, from the agent's side: read from origin; reports and ticks go to the git door as requests.

Each report is in the state before the first attempt to send it and leaves it after the last, so none is lost; sending
one twice leaves it on the page once."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

from infra.cell.clone_tip import CloneTip, retried
from infra.cell.doors import Refused
from infra.cell.log import Log
from infra.cell.state import State
from infra.shared import approvals, comms
from infra.shared.boot import Boot
from infra.shared.comms import Directive
from infra.shared.door import DoorAway
from infra.shared.paths import PAGE
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import read_file
from infra.shared.requests import MAX_TICKS, TEXT_CHARS, TITLE_CHARS, Done, Report
from infra.shared.secret_shapes import redacted
from infra.shared.text import cut

SAFE_MODE = "This is safe mode: the PM's own copy of the program runs, in place of main at {main}.\n\n"


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
        boot: Boot,
        hand_over: Callable[[Report], Done],
        log: Log,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._git, self._state, self._boot = git, state, boot
        self._hand_over, self._log, self._pause = hand_over, log, pause

    def commit(self) -> str:
        """Of the checkout now. Reports must be made even when the agent has ruined its clone."""
        try:
            return self._git("rev-parse", "--verify", "HEAD")
        except GitError:
            return self._boot.commit

    def look(self) -> PageSeen:
        """Fetch main and read its page; missing sections are filled in here and named. Raises GitError."""
        commit = retried(CloneTip(self._git).look, self._pause)
        document = read_file(self._git, commit, PAGE)
        missing = (PAGE,) if document is None else tuple(_missing_sections(document))
        return PageSeen(commit, comms.with_sections(document or ""), missing)

    def report(self, title: str, text: str, ticks: tuple[str, ...] = (), about: tuple[str, ...] = ()) -> bool:
        """Report, behind the version that runs, and tick directives with it; True when all reports are on main.
        `about`: directives that stay open.

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
        boot = self._boot
        text = f"{SAFE_MODE.format(main=boot.instead_of[:12]) if boot.is_safe_mode else ''}{text}"
        if ids := (*ticks, *about):
            text = f"{comms.ABOUT}{', '.join(ids)}\n\n{text}"
        report = request_of(boot.branch, self.commit(), title, text, ticks, tasks)
        self._state.change(unsent=(*self._state.memory.unsent, report))

    def send(self) -> bool:
        """Send what is unsent, oldest first; True when nothing is left."""
        self._state.save()
        for report in self._state.memory.unsent:
            try:
                self._hand_over(report)
                self._log.info("report.sent", title=report.whole_title, ticked=list(report.ticks))
            except (Refused, ValueError) as no:
                self._log.error("report.refused", reason=str(no), title=report.whole_title, text=report.text)
            except DoorAway as error:
                self._log.warning("report.not_sent", title=report.whole_title, reason=str(error))
                return False
            self._state.change(unsent=self._state.memory.unsent[1:])
        return True

    def ticks_underway(self) -> set[str]:
        """Directives that are done, though main may not say so yet."""
        return {id for report in self._state.memory.unsent for id in (*report.ticks, *report.tasks)}


def request_of(
    branch: str, commit: str, title: str, text: str, ticks: tuple[str, ...] = (), tasks: tuple[str, ...] = ()
) -> Report:
    """With an id of its own. What is longer than a request may be is cut."""
    # A model may speak half a character, which UTF-8 cannot hold. A mark may be longer than what it stands for: what
    # was redacted behind the cut could not be read back from the state.
    title, text = (redacted(words.encode(errors="replace").decode()) for words in (title, text))
    if len(text) > TEXT_CHARS:
        text = f"{cut(text, TEXT_CHARS - 100)}\n\n[…] The rest is not in any report."
    title = cut(title, TITLE_CHARS)
    return Report(secrets.token_hex(16), branch, commit, title, text, ticks[:MAX_TICKS], tasks[:MAX_TICKS])


def _missing_sections(document: str) -> list[str]:
    missing = []
    for section in (comms.DIRECTIVES, comms.REPORTS):
        try:
            comms.section_text(document, section)
        except comms.CommsError:
            missing.append(f"## {section}")
    return missing
