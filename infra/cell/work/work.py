"""What a run is for, where it comes from, and which is the next: the first of the sources' that does not wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from infra.cell.loop.loop import RunResult
from infra.cell.loop.record import Line
from infra.cell.mind.tasks import TaskAnswer
from infra.cell.page import PageSeen
from infra.cell.waits import MODEL, Table, Wait, is_due
from infra.shared.approvals import open_answers
from infra.shared.conversation import TASK


class Work(NamedTuple):
    """What a run is for."""

    id: str
    """Of a directive, eight hexadecimal digits; `TASK-001`; `Q-0001`."""
    subject: str
    """One line, for people."""
    words: str
    """As the model reads them."""
    pm_words: str = ""
    """What of them is the PM's: neither ours, nor a question of the agent's own."""
    digest: str = ""
    label: str = TASK
    ticks: tuple[str, ...] = ()
    """Directives that are done with it."""

    @property
    def is_directive(self) -> bool:
        """It stands on the page, which the model reads."""
        return self.id in self.ticks


class Over(NamedTuple):
    """A run that is over, for the source of its work."""

    run: str
    result: RunResult
    wait: Wait
    """What follows."""
    document: str
    """The page."""
    lines: Sequence[Line]
    """Its record."""


class Report(NamedTuple):
    title: str
    text: str
    ticks: tuple[str, ...] = ()
    """Directives that are done."""
    tasks: tuple[str, ...] = ()
    """Tasks of the inbox that are done."""
    about: tuple[str, ...] = ()
    """Directives that stay open."""
    answer: TaskAnswer | None = None
    """Of the task, to be written down."""


class WorkSource:
    """Of work. `open` and `news` raise GitError and OSError."""

    def open(self, seen: PageSeen) -> Iterable[Work]:
        """What there is to do, in its order."""
        raise NotImplementedError

    def begin(self, work: Work) -> None:
        """A run on it begins."""

    def news(self, work: Work, seen: PageSeen) -> tuple[str, Work]:
        """What the PM has done to the work meanwhile, and the work as it is now."""
        return "", work

    def end(self, work: Work, over: Over) -> Report | None:
        """What the PM is told of the run."""
        raise NotImplementedError

    def close(self, told: Report | None) -> None:
        """That report is in the queue, on the disk: write down the rest."""


def wait_of(table: Table, work: Work) -> Wait:
    """How this work waits; with other words it is other work."""
    found = table.get(work.id)
    return found if found and found.digest == work.digest else Wait(digest=work.digest)


def next_work(
    sources: Iterable[WorkSource], seen: PageSeen, table: Table, underway: Collection[str], now: float, tick: float
) -> tuple[tuple[Work, WorkSource] | None, list[tuple[str, Wait]]]:
    """The first work that may begin, and what stands before it and waits. `underway`: what is done, though the page may
    not say so yet. Raises GitError, OSError."""
    waiting, answered = list[tuple[str, Wait]](), open_answers(seen.document)
    for source in sources:
        for work in source.open(seen):
            both = wait_of(table, work), table.get(MODEL, Wait())
            waits = [each for each in both if not is_due(each, now, tick, answered)]
            if work.id in underway:
                continue
            if not waits:
                return (work, source), waiting
            waiting.append((work.subject, waits[0]))
    return None, waiting
