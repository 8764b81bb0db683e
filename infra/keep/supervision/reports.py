"""The watcher's reports to the PM: appended to COMMS.md at once, and kept until they are there.

A report is kept in `watcher.json` with the decision that it is about, and the commit that appends it names its id:
whenever the watcher is killed, each report is sent once."""

from __future__ import annotations

import secrets

import structlog

from infra.keep.git_door import rollback
from infra.keep.repository import page
from infra.keep.repository.page_text import USUAL, PageBounds
from infra.keep.same_trouble import SameTrouble
from infra.keep.supervision.decide.events import Tell
from infra.keep.watcher_file import Instant, Report
from infra.shared.clock import timestamp
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import TipBusy
from infra.shared.secret_shapes import redacted_and_cut

TOGETHER = 50
AGAIN_SECONDS = 5.0


class Reports:
    """Reports in their order. Each attempt costs a few git calls, so those that wait are told in one commit, and one
    that fails is not repeated at once."""

    def __init__(self, places: Paths, log: structlog.stdlib.BoundLogger, bounds: PageBounds = USUAL) -> None:
        self._git = Git(places.remote)
        self._places = places
        self._log = log
        self._bounds = bounds
        self._trouble = SameTrouble()
        self.untold: tuple[Report, ...] = ()
        self._doubtful = set[str]()
        """Ids of reports that may have been sent already."""
        self._due = 0.0

    def take_up(self, untold: tuple[Report, ...]) -> None:
        """Take over the unsent reports of an earlier watcher."""
        self.untold += untold
        self._doubtful |= {report.id for report in untold}

    def add(self, tell: Tell, now: Instant) -> None:
        """The same title is told the 1st, 2nd, 4th, 8th … time."""
        if any(report.id == tell.about for report in self.untold):
            return
        again = self._trouble.again(tell.title, now.wall)
        if again is None:
            self._log.info("report.counted", title=tell.title, text=tell.text)
            return
        title, text = f"watcher: {tell.title}", "\n\n".join(filter(None, (tell.text, again)))
        self._doubtful |= {tell.about} - {""}
        id = tell.about or secrets.token_hex(8)
        self.untold += (Report(id=id, at=timestamp(now.wall), title=title, text=text),)

    def send(self, now: Instant, at_last: bool = False) -> None:
        """Append what is untold to COMMS.md, unless an attempt failed a moment ago and this is not the last one."""
        while self.untold and (at_last or now.watch >= self._due):
            together, rest = self.untold[:TOGETHER], self.untold[TOGETHER:]
            try:
                doubtful = self._doubtful & {report.id for report in together}
                told = page.reported(self._git, WATCHER) if doubtful else frozenset()
                new = [report for report in together if report.id not in told]
                if new:
                    rollback.report(self._places, *new, bounds=self._bounds)
            except (GitError, TipBusy, OSError, ValueError) as error:
                self._log.error("report.failed", title=together[0].title, reason=redacted_and_cut(str(error), 1000))
                self._due = now.watch + AGAIN_SECONDS
                return
            self.untold, self._doubtful = rest, self._doubtful - doubtful
