"""A life on main in the test's own thread: whenever the runner would sleep, the story goes on by a step; it is asked to
end when the story is over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from infra.cell.cell import Cell as Context
from infra.cell.interruption import Interrupted
from infra.cell.life.live import live
from infra.cell.loop.loop import RunResult
from infra.cell.run.run import WorkRun
from infra.cell.wakes import Wakes
from infra.cell.work.directives import Directives
from infra.cell.work.tasks import Tasks
from infra.shared.conversation import Completion, Request
from infra.shared.exit_codes import Exit
from infra.shared.requests import Where
from tests.cell.cell import Cell, read

TICK, AGAIN = "until it is time", "sleep on"
Story = Iterator[str]
"""Says at each step how the runner is woken: by nothing but what was pushed (AGAIN), or as named above."""


class Days(Wakes):
    def __init__(self, cell: Cell, context: Context, story: Story) -> None:
        super().__init__(cell.places.git_socket, context.log, context.interruption)
        self._cell, self._story = cell, story

    def sleep(self, until: float, wall_seconds: Callable[[], float] = time.time) -> bool:
        how = next(self._story, None)
        if how is None:
            raise Interrupted
        if how == TICK:
            time.sleep(max(0.0, until - wall_seconds()))
        return self.moved()

    def is_quiet(self, seconds: float) -> bool:
        return not self.moved()

    def moved(self) -> bool:
        if not os.path.isdir(self._cell.places.remote):
            return False
        mind = f"{self._cell.places.remote}/refs/heads/mind"
        now = Where(self._cell.main(), read(mind).strip() if os.path.exists(mind) else self._last.mind)
        moved, self._last = now != self._last, now
        return moved


def lives(
    cell: Cell, story: Story, model: Callable[[Request], Completion] | None = None, **boot: Any
) -> tuple[Exit | None, Context]:
    """How a runner's life with this story ends; None when it was asked to end."""
    assert cell.model
    context = cell.context(model, **boot)
    try:
        return live(context, Days(cell, context, story)), context
    except Interrupted:
        return None, context


def one_day(cell: Cell, *pushes: Callable[[], object], **boot: Any) -> Context:
    """It does what there is to do, and again after each of these pushes."""

    def story() -> Story:
        for push in pushes:
            push()
            yield AGAIN

    ended, context = lives(cell, story(), **boot)
    assert ended is None
    return context


class Still(Wakes):
    """Nothing moves, and no wait takes its time."""

    def __init__(self, context: Context) -> None:
        super().__init__("", context.log, context.interruption)
        self.waited = list[float]()

    def sleep(self, until: float, wall_seconds: Callable[[], float] = time.time) -> bool:
        self.waited.append(round(until - wall_seconds()))
        return False

    def moved(self) -> bool:
        return False


def one_run(context: Context, wakes: Wakes | None = None) -> RunResult:
    """On the first open directive, whether it waits or not."""
    wakes = wakes or Still(context)
    seen = context.page.look()
    tasks = Tasks(context, wakes)
    tasks.look()
    source = Directives(tasks)
    return WorkRun(context, seen, next(source.open(seen)), source, wakes).work()
