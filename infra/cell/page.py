"""COMMS.md of main, from the agent's side: read from origin; reports and ticks go to the git door as requests.

Each report is in the state before the first attempt to send it and leaves it after the last, so none is lost; sending
one twice leaves it on the page once."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from infra.cell.clone_tip import CloneTip
from infra.cell.doors import Keep, Refused
from infra.cell.state import State
from infra.shared import approvals, comms
from infra.shared.boot import Boot
from infra.shared.comms import Directive
from infra.shared.door import DoorAway
from infra.shared.paths import PAGE
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import read_file
from infra.shared.requests import MAX_TICKS, TEXT_CHARS, TITLE_CHARS, Report
from infra.shared.secret_shapes import redacted
from infra.shared.text import cut

if TYPE_CHECKING:
    from infra.shared.log import Log

Ids = tuple[str, ...]
SAFE_MODE = "This is safe mode: the PM's own copy of the program runs, in place of main at {main}.\n\n"


class PageSeen(NamedTuple):
    """COMMS.md as it was at one commit of main."""

    commit: str
    document: str

    @property
    def open(self) -> list[Directive]:
        """What there is to do; the PM's answers to questions of the agent are no work."""
        return [item for item in comms.open_directives(self.document) if not approvals.answers_in(item.text)]


class Page(NamedTuple):
    """COMMS.md of main as a clone sees it. The keep alone writes it."""

    git: Git
    state: State
    boot: Boot
    keep: Keep
    log: Log

    def commit(self) -> str:
        """Of the checkout now. Reports must be made even when the agent has ruined its clone."""
        try:
            return self.git("rev-parse", "--verify", "HEAD")
        except GitError:
            return self.boot.commit

    def look(self) -> PageSeen:
        """Fetch main and read its page, as the keep puts it right with the next report. Raises GitError."""
        commit = CloneTip(self.git).look()
        return PageSeen(commit, comms.with_sections(read_file(self.git, commit, PAGE) or ""))

    def report(self, title: str, text: str, ticks: Ids = (), about: Ids = ()) -> bool:
        """Report, behind the version that runs, and tick directives with it; True when all reports are on main.
        `about`: directives that stay open.

        What cannot be sent now is sent by a later `send`."""
        self.add(title, text, ticks, about=about)
        return self.send()

    def add(self, title: str, text: str, ticks: Ids = (), tasks: Ids = (), about: Ids = (), id: str = "") -> None:
        """Put a report into the queue, on the disk; `tasks` of the inbox are done with it. One that may be made again
        has an `id`, by which the keep knows it."""
        boot = self.boot
        if boot.is_safe_mode:
            text = SAFE_MODE.format(main=boot.instead_of[:12]) + text
        if ids := (*ticks, *about):
            text = f"{comms.ABOUT}{', '.join(ids)}\n\n{text}"
        report = request_of(boot.branch, self.commit(), title, text, ticks, tasks, id)
        self.state.change(unsent=(*self.state.memory.unsent, report))

    def send(self) -> bool:
        """Send what is unsent, oldest first; True when nothing is left."""
        if self.state.memory.unsent:
            self.state.change()  # the disk may not have taken it before
        for report in self.state.memory.unsent:
            try:
                self.keep.report(report)
                self.log.info("report.sent", title=report.whole_title, ticked=list(report.ticks))
            except (Refused, ValueError) as no:
                self.log.error("report.refused", reason=str(no), title=report.whole_title, text=report.text)
            except DoorAway as error:
                self.log.warning("report.not_sent", title=report.whole_title, reason=str(error))
                return False
            self.state.change(unsent=self.state.memory.unsent[1:])
        return True

    def ticks_underway(self) -> set[str]:
        """Directives that are done, though main may not say so yet."""
        return {id for report in self.state.memory.unsent for id in (*report.ticks, *report.tasks)}


def request_of(
    branch: str, commit: str, title: str, text: str, ticks: Ids = (), tasks: Ids = (), id: str = ""
) -> Report:
    """With an `id` of its own when none is given. What is longer than a request may be is cut."""
    # A model may speak half a character, which UTF-8 cannot hold. A mark may be longer than what it stands for: what
    # was redacted behind the cut could not be read back from the state.
    title, text = (redacted(words.encode(errors="replace").decode()) for words in (title, text))
    if len(text) > TEXT_CHARS:
        text = f"{cut(text, TEXT_CHARS - 100)}\n\n[…] The rest is not in any report."
    title = cut(title, TITLE_CHARS)
    return Report(id or secrets.token_hex(16), branch, commit, title, text, ticks[:MAX_TICKS], tasks[:MAX_TICKS])
