"""What a run is told between two steps."""

from __future__ import annotations

from infra.cell.cell import Cell as Context
from infra.cell.loop.record import Opened, RunRecord
from infra.cell.loop.ways import News
from infra.cell.run.news import RunNews
from infra.cell.run.opening import Opening
from infra.cell.wakes import Wakes
from infra.cell.work.directives import Directives
from infra.cell.work.tasks import Tasks
from infra.shared.boot import TOOLS
from tests.cell.cell import Cell
from tests.cell.life.days import Days
from tests.cell.loop.records import OPENING


def news(context: Context, wakes: Wakes, record: RunRecord | None = None, acts: str = TOOLS) -> RunNews:
    """Of a run on the first directive, with this record."""
    seen = context.page.look()
    wakes.seen(main=seen.commit)
    source = Directives(Tasks(context, wakes))
    start = Opening(Opened(OPENING, acts), record or RunRecord("/nowhere", "a run"))
    return RunNews(context, wakes, seen, next(source.open(seen)), source, start)


def test_what_the_pm_adds_and_takes_back_meanwhile_is_told_once(cell: Cell) -> None:
    """New directives only, with all their words; they are told again to a conversation that lost its beginning."""
    cell.tell("first thing")
    context = cell.context()
    told = news(context, wakes := Days(cell, context, iter(())))
    assert told.words() == News(), "the control: nothing is new yet"

    cell.tell("second thing\n\nin two lines")
    said = told.words()
    assert (said.runtime, "first thing" in said.pm) == ("", False)
    for words in (said.pm, told.all_words()):
        assert "second thing\n\nin two lines" in words
    assert "first thing" in told.all_words()
    assert told.words() == News()
    cell.pm_edits(lambda page: page.replace("- [ ] first thing\n", ""), "not that")
    assert "taken back" in told.words().pm
    assert (told.words(), told.work.ticks) == (News(), ())
    wakes.close()


def test_each_mark_of_the_budget_is_told_once(cell: Cell) -> None:
    """At 80, 90, 95 and 99 %; nothing again when a new day begins meanwhile."""
    cell.tell("do it")
    context = cell.context()
    told, said = news(context, Days(cell, context, iter(()))), list[tuple[int, str]]()
    for percent in (*range(101), *range(101)):
        told.spent(percent / 100)
        said += [(percent, words.runtime) for words in [told.words()] if words.runtime]
        assert told.words() == News(), "what was said is not said again"
    assert [percent for percent, _ in said] == [80, 90, 95, 99]
    assert all("of the day's budget" in words and "the next UTC day" in words for _, words in said)
