"""The watcher's reports to the PM: appended to COMMS.md at once, and kept until they are there.

A report is kept in `watcher.json` with the decision that it is about, and the commit that appends it names its id:
whenever the watcher is killed, each report is sent once."""

from __future__ import annotations

import secrets
from collections import deque
from itertools import islice

import structlog

from infra.keep.repository import page
from infra.keep.same_trouble import SameTrouble
from infra.keep.supervision import main_branch
from infra.keep.supervision.decide.events import Tell
from infra.keep.supervision.decide.state import Instant
from infra.keep.watcher_file import Report
from infra.shared import report_titles
from infra.shared.clock import timestamp
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.page_text import USUAL, PageBounds
from infra.shared.repository.tip import TipBusy
from infra.shared.secret_shapes import redacted_and_cut

LONGEST_DELAY = 10.0
MOST_KEPT = 400
"""While nothing can be told: as many as a runner that is refused 20 times a second brings about in 20 s. What comes
then is in the watcher's log, and the last report says so."""
TOGETHER = 50
DIFFERENT_NAMES = 8
"""How many reports of one kind that differ only in a name are shown individually."""


class Reports:
    """Reports in their order. Each attempt costs a few git calls, so those that wait are told
    in one commit, and one that fails is not repeated at once."""

    def __init__(self, places: Paths, log: structlog.stdlib.BoundLogger, bounds: PageBounds = USUAL) -> None:
        self._places = places
        self._log = log
        self._bounds = bounds
        self._trouble = SameTrouble()
        self._untold: deque[Report] = deque()
        self._perhaps_told: set[str] = set()
        """Reports that an earlier watcher may have sent before it was killed."""
        self._delay = 0.0
        self._due = 0.0

    @property
    def untold(self) -> tuple[Report, ...]:
        return tuple(self._untold)

    def take_up(self, untold: tuple[Report, ...]) -> None:
        """Take over the unsent reports of an earlier watcher."""
        self._untold.extend(untold)
        self._perhaps_told.update(report.id for report in untold)

    def add(self, tell: Tell, now: Instant) -> None:
        if any(report.id == tell.about for report in self._untold):
            return
        again = self._again(tell.title, now.wall)
        if again is None:
            self._log.info("report.counted", title=tell.title, text=tell.text)
            return
        if len(self._untold) >= MOST_KEPT:
            self._log.error("report.dropped", title=tell.title, text=tell.text)
            tell = _TOO_MANY
            if self._untold[-1].title == tell.title:
                return
        if tell.about:
            self._perhaps_told.add(tell.about)
        id = tell.about or secrets.token_hex(8)
        text = "\n\n".join(filter(None, (tell.text, again)))
        self._untold.append(Report(id=id, at=timestamp(now.wall), title=tell.title, text=text))

    def _again(self, title: str, wall: float) -> str | None:
        """Words on how often this came about; None when it is counted only."""
        kind = report_titles.kind_of(title)
        if kind != title:
            # The agent chooses the names: each is reported, until there are more of them than anyone would read.
            alike = self._trouble.again(kind, wall)
            if alike is None and self._trouble.count(kind) > DIFFERENT_NAMES:
                return None
        return self._trouble.again(title, wall)

    def send(self, now: Instant, at_last: bool = False) -> None:
        """Append what is untold to COMMS.md, unless an attempt failed a moment ago and this is not the last one."""
        if now.monotonic < self._due and not at_last:
            return
        while self._untold:
            together = list(islice(self._untold, TOGETHER))
            try:
                is_doubtful = not self._perhaps_told.isdisjoint(report.id for report in together)
                told = page.reported(Git(self._places.remote), WATCHER) if is_doubtful else frozenset()
                new = [report for report in together if report.id not in told]
                if new:
                    main_branch.report(self._places, *new, bounds=self._bounds)
            except (GitError, TipBusy, OSError, ValueError) as error:
                self._log.error("report.failed", title=together[0].title, reason=redacted_and_cut(str(error), 1000))
                self._delay = min(max(1.0, 2 * self._delay), LONGEST_DELAY)
                self._due = now.monotonic + self._delay
                return
            for report in together:
                self._untold.popleft()
                self._perhaps_told.discard(report.id)
            self._delay = 0.0


_TOO_MANY = Tell(
    report_titles.watcher("some reports are only in the log"),
    f"More than {MOST_KEPT} waited while main could not be moved; 'minifram logs' shows the others as report.dropped.",
)
