"""Time in which the watcher did not look counts against nobody."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from infra.keep.services.elapsed import Elapsed
from infra.keep.supervision.absence import Absence
from infra.keep.supervision.decide.state import Instant, Patience, Phase, State
from infra.keep.watcher_file import SignalRequest

BOOTING = State(Phase.BOOTING, Instant(100.0, 0.0), Patience(60.0, 10.0), deadline=160.0)


def watching(state: State = BOOTING) -> Absence:
    """From the moment of the launch."""
    absence = Absence()
    assert absence.looks(99.0, 0.05) == 0.0
    assert absence.due(state) == 160.0
    return absence


def test_a_deadline_is_put_off_by_the_time_away() -> None:
    """As often as that happens; a look that is hardly late puts nothing off."""
    absence = watching()
    assert absence.looks(101.0, 0.05) == 0.0
    assert absence.due(BOOTING) == 160.0
    assert absence.looks(151.05, 0.05) == pytest.approx(50.0)
    assert absence.due(BOOTING) == pytest.approx(210.0)
    absence.looks(161.1, 0.05)
    assert absence.due(BOOTING) == pytest.approx(220.0)


def test_another_deadline_begins_anew() -> None:
    """What was before it does not count for it: not even the end of an absence in which it was set."""
    absence = watching()
    absence.looks(150.0, 0.05)
    ending = replace(BOOTING, phase=Phase.ENDING, since=Instant(180.0, 0.0), deadline=190.0)
    assert absence.due(ending) == 190.0
    absence.looks(181.0, 0.5)
    assert absence.due(ending) == 190.0


def test_what_says_when_to_look_again_is_not_put_off() -> None:
    """A wait is over when it is over; whoever was asked to leave is given time."""
    waiting = replace(BOOTING, phase=Phase.WAITING)
    serving = replace(BOOTING, phase=Phase.RUNNING)
    leaving = replace(serving, request=SignalRequest(name="bootstrap", target="x", identity="1"))
    for state, due in ((waiting, 160.0), (serving, 160.0), (leaving, 200.0)):
        absence = watching(state)
        absence.looks(140.5, 0.5)
        assert absence.due(state) == due
    assert Absence().due(replace(BOOTING, deadline=None)) is None


def test_what_lasts_is_counted_while_the_watcher_looks() -> None:
    """A look that is late counts for little, and one that finds it over begins anew."""
    lasting = Elapsed()
    assert [lasting.looks(at, True) for at in (10.0, 11.0, 100.0)] == [0.0, 1.0, 3.0]
    assert [lasting.looks(101.0, False), lasting.looks(102.0, True), lasting.looks(103.0, True)] == [0.0, 0.0, 1.0]
