"""The directives of a run: those that were open at its start, and those that the PM adds while it runs, which reach the
model between two steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from infra.cell.cell import TENDING_SECONDS, Cell
from infra.cell.page import PageSeen
from infra.cell.runner.job import directive_ids
from infra.cell.wakes import Wakes
from infra.shared.comms import Directive
from infra.shared.repository.git import GitError


class NewDirectives:
    def __init__(
        self,
        context: Cell,
        wakes: Wakes | None,
        tasks: Sequence[Directive],
        other_news: Callable[[PageSeen], str | None] = lambda seen: None,
        look_first: bool = False,
        wall_seconds: Callable[[], float] = time.time,
    ) -> None:
        """`other_news` says what else on a page that moved the model should know. With `look_first` the page is read
        after the first step, though no news of it has come."""
        self._wall_seconds = wall_seconds
        self.tasks = list(tasks)
        """All directives so far, and the task that the run is for."""
        self._context = context
        self._wakes = wakes
        self._to_look = look_first
        self._other_news = other_news

    def all_words(self) -> str:
        """All directives so far, for a conversation that has lost its beginning."""
        return f"The directives of this run are:\n\n{_words(self.tasks)}"

    def wait(self, seconds: float) -> bool:
        """Wait so long; true as soon as main has other code or lacks one of these directives, so that the run had
        better end. Raises Interrupted."""
        if self._wakes is None:
            with self._context.interruption:
                self._context.pause(seconds)
            return False
        ends = time.monotonic() + seconds
        while self._wakes.sleep(
            self._wall_seconds() + ends - time.monotonic()
        ):  # the clock of the wall may be set meanwhile
            self._to_look = True
            self._context.heartbeat.beat("looking", TENDING_SECONDS)
            if self._is_overtaken():
                return True
        self._wakes.has_returned()  # the doors are back: the model is asked at once, and that is all
        return False

    def _is_overtaken(self) -> bool:
        try:
            seen = self._context.page.look()
            open_now = {task.id for task in seen.open}
            return self._context.is_outdated(seen.commit) or not open_now.issuperset(directive_ids(self.tasks))
        except GitError as error:
            self._context.log.warning("page.not_read", error=str(error))
            return False

    def news(self) -> str | None:
        """New directives as words for the model; None when there are none."""
        if self._wakes is None:
            return None
        self._to_look = self._wakes.moved() or self._to_look
        if not self._to_look:
            return None
        try:
            seen = self._context.page.look()
        except GitError as error:
            self._context.log.warning("page.not_read", error=str(error))
            return None
        self._to_look = False
        self._wakes.seen(seen.commit)
        known = {task.id for task in self.tasks} | self._context.page.ticks_underway()
        fresh = [task for task in seen.open if task.id not in known]
        news = self._other_news(seen)
        if not fresh:
            return news
        self.tasks += fresh
        self._context.log.info("run.directives_added", directives=[task.id for task in fresh])
        added = f"The PM has added to Directives while you work; take it into account now:\n\n{_words(fresh)}"
        return f"{news}\n\n{added}" if news else added


def _words(tasks: Sequence[Directive]) -> str:
    return "\n\n".join(f"{task.id}: {task.text}" for task in tasks)
