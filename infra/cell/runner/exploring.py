"""When the agent may follow a question of its own: with nothing else to do, within what the PM allows for a UTC day.
Money, tokens and calls are counted by the model door, time is counted here."""

from __future__ import annotations

from infra.cell.runner.context import RunnerContext
from infra.cell.runner.job import Job
from infra.cell.runner.task_desk import TaskDesk
from infra.shared import mind_settings


class Exploring:
    """Of one runner's life."""

    def __init__(self, context: RunnerContext, desk: TaskDesk) -> None:
        self._context, self._desk = context, desk
        self._waits_on = ""
        """The UTC day on which no more is explored."""

    def next_job(self) -> Job | None:
        context, memory = self._context, self._context.state.memory
        settings = mind_settings.from_json(context.boot.mind).exploration
        today = context.now()[:10]
        spent = memory.explored_seconds if memory.explored_on == today else 0.0
        if settings.usd is None or spent >= settings.seconds or self._waits_on == today:
            return None
        return self._desk.next_question()

    def wait(self, why: str) -> None:
        """Until the day is over: the budget is used up, or there is no model."""
        self._waits_on = self._context.now()[:10]
        self._context.log.info("exploration.waits", after=self._waits_on, why=why)
