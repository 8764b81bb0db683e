"""When the agent may follow a question of its own: with nothing else to do, within what the PM allows for a UTC day.
Money is counted by the model door, time is counted here."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from infra.cell.cell import Cell
from infra.cell.doors import ModelFailure
from infra.cell.runner.job import Job, exploration_job
from infra.cell.runner.task_desk import TaskDesk
from infra.cell.state import Explored
from infra.shared.conversation import EXPLORATION, SHARES
from infra.shared.mind.questions import OpenQuestion
from infra.shared.repository.git import GitError

USED_UP: Final = "exploration_exhausted"
"""The model door's word: of all exploration, or of the label's share."""
DAY_SECONDS = 3600.0
"""Of exploration in a UTC day: a model that costs nothing has no other bound."""


class Exploring:
    """Of one runner's life."""

    def __init__(self, context: Cell, desk: TaskDesk) -> None:
        self._context, self._desk = context, desk
        self._waits: dict[str, str] = {}
        """By label, the UTC day on which no more of that kind is explored."""

    def next_job(self) -> Job | None:
        context, today = self._context, self._context.now()[:10]
        waits = {label for label, day in self._waits.items() if day == today}
        if context.boot.exploration_usd is None or EXPLORATION in waits:
            return None
        try:
            questions = self._desk.questions()
        except GitError as error:
            context.log.error("exploration.failed", error=str(error))
            return None
        question = next_question(questions, context.state.explored(today), waits)
        return exploration_job(question) if question else None

    def wait(self, job: Job, failure: ModelFailure | None) -> None:
        """A run on this job came to nothing: until the day is over no more is explored, or, when what its label may
        use is used up, no more of that kind."""
        label = job.label if failure and failure.type == USED_UP else EXPLORATION
        self._waits[label] = self._context.now()[:10]
        self._context.log.info("exploration.waits", label=label, after=self._waits[label], why=str(failure))


def next_question(
    questions: Iterable[OpenQuestion],
    explored: Collection[Explored],
    waits: Collection[str],
    day_seconds: float = DAY_SECONDS,
) -> OpenQuestion | None:
    """The first that was not tried on this day, and for which there is time. `waits`: labels whose share is used up.
    Pure."""
    tried = {each.question for each in explored}

    def has_time(label: str) -> bool:
        of_label = sum(each.seconds for each in explored if each.label == label)
        return of_label < day_seconds * SHARES.get(label, 1.0)

    if sum(each.seconds for each in explored) >= day_seconds:
        return None
    return next(
        (each for each in questions if each.id not in tried and each.label not in waits and has_time(each.label)), None
    )
