"""The table in spec/ is the code's own, and whole."""

from __future__ import annotations

from infra.keep.supervision.decide.events import Event
from infra.keep.watcher_file import Phase
from tests.keep.supervision import table


def test_the_table_is_what_the_code_does() -> None:
    """`python -m tests.keep.supervision.table` writes it anew."""
    assert table.PAGE.read_text() == table.text()


def test_every_event_and_every_phase_has_its_place() -> None:
    """A new event gets a row, a new phase a column."""
    assert {type(event) for _, event in table.ROWS} == set(Event.__args__)
    assert {state.phase for _, state in table.COLUMNS} == set(Phase) - {Phase.STOPPED}
