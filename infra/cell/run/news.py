"""What a run's model is told between two steps: what the PM did to its work, new directives, answers, and money."""

from __future__ import annotations

import time

from infra.cell.cell import Cell
from infra.cell.loop.ways import News
from infra.cell.page import PageSeen
from infra.cell.run.approvals import Approvals
from infra.cell.wakes import Wakes
from infra.cell.work.work import Work, WorkSource
from infra.shared.repository.git import GitError

MARKS = (0.80, 0.90, 0.95, 0.99)
"""Of the day's budget: at each the model is told once."""


class RunNews:
    """The news of one run."""

    def __init__(
        self,
        cell: Cell,
        wakes: Wakes,
        seen: PageSeen,
        work: Work,
        source: WorkSource,
        approvals: Approvals,
        is_resumed: bool = False,
    ) -> None:
        """A run that is resumed is told after its first step what is open beside its own work."""
        self._cell, self._wakes, self._source, self._approvals = cell, wakes, source, approvals
        self.work = work
        """As it is now."""
        self._known = {*work.ticks} if is_resumed else {each.id for each in seen.open}
        self._joined = list[str]()
        self._to_look = is_resumed
        self._spent = self._noticed = 0.0

    def all_words(self) -> str:
        """For a conversation that has lost its beginning."""
        return "\n\n".join((f"The work of this run is {self.work.id}:\n\n{self.work.words}", *self._joined))

    def spent(self, share: float) -> None:
        """Of the day's budget, as the model door said with its last answer."""
        self._spent = share

    def wait(self, seconds: float) -> bool:
        """Wait so long; true when main has moved: the run ends then, and goes on from its record if its work still
        stands. Raises Interrupted."""
        moved = self._wakes.sleep(time.time() + seconds)
        self._wakes.has_returned()  # the doors are back: the model is asked at once, and that is all
        return moved

    def words(self) -> News:
        """What is new since this was asked last."""
        return News(pm=self._of_the_pm(), runtime=self._of_money())

    def _of_the_pm(self) -> str:
        self._to_look = self._wakes.moved() or self._to_look
        if not self._to_look:
            return ""
        try:
            seen = self._cell.page.look()
            changed, self.work = self._source.news(self.work, seen)
        except GitError as error:
            self._cell.log.warning("page.not_read", error=str(error))
            return ""
        self._to_look = False
        self._wakes.seen(seen.commit)
        return "\n\n".join(filter(None, (changed, self._approvals.news(seen), self._new_directives(seen))))

    def _new_directives(self, seen: PageSeen) -> str:
        """Each has a run of its own; what concerns this one is taken into account now."""
        fresh = [each for each in seen.open if each.id not in self._known]
        if not fresh:
            return ""
        self._known |= {each.id for each in fresh}
        self._cell.log.info("run.directives_added", directives=[each.id for each in fresh])
        listed = "\n\n".join(f"{each.id}: {each.text}" for each in fresh)
        words = (
            "New under Directives since you looked last. Take into account what concerns this run; each has a run of "
            f"its own, and your report ticks {self.work.id} alone:\n\n{listed}"
        )
        self._joined.append(words)
        return words

    def _of_money(self) -> str:
        mark = max((each for each in MARKS if each <= self._spent), default=0.0)
        if mark <= self._noticed:
            return ""
        self._noticed = mark
        return (
            f"{self._spent:.0%} of the day's budget is used up. When all of it is, the agent waits for the next UTC "
            "day. Commit and push what you have, and finish what matters most."
        )
