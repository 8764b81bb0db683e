"""The directives that a unit of work is about: those that were open at its start, and those that the PM adds while
it runs, which reach the model between two steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infra.cell.runner.home import Home
from infra.cell.runner.page import Seen
from infra.cell.runner.wakes import Wakes
from infra.shared.comms import Directive
from infra.shared.repository.git import GitError


def nothing_new(seen: Seen) -> str | None:
    return None


class Steering:
    """What the unit has been told to do so far."""

    def __init__(
        self,
        home: Home,
        wakes: Wakes | None,
        tasks: Sequence[Directive],
        news: Callable[[Seen], str | None] = nothing_new,
        look_first: bool = False,
    ) -> None:
        """`news` says what else on a page that moved the model should be told. With `look_first` the page is read after
        the first step, though no news of it has come."""
        self.tasks = list(tasks)
        self._home = home
        self._wakes = wakes
        self._to_look = look_first
        self._news = news

    def all_words(self) -> str:
        """All directives so far, for a conversation that has lost its beginning."""
        return f"The directives of this unit of work are:\n\n{_words(self.tasks)}"

    def __call__(self) -> str | None:
        """New directives as words for the model; None when there are none."""
        if self._wakes is None:
            return None
        self._to_look = self._wakes.moved() or self._to_look
        if not self._to_look:
            return None
        try:
            seen = self._home.page.look()
        except GitError as error:
            self._home.log.warning("page.not_read", error=str(error))
            return None
        self._to_look = False
        self._wakes.seen(seen.commit)
        known = {task.id for task in self.tasks} | self._home.page.ticks_underway()
        fresh = [task for task in seen.open if task.id not in known]
        news = self._news(seen)
        if not fresh:
            return news
        self.tasks += fresh
        self._home.log.info("unit.steered", directives=[task.id for task in fresh])
        added = f"The PM has added to Directives while you work; take it into account now:\n\n{_words(fresh)}"
        return f"{news}\n\n{added}" if news else added


def _words(tasks: Sequence[Directive]) -> str:
    return "\n\n".join(f"{task.id}: {task.text}" for task in tasks)
