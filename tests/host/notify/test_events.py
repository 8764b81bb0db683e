"""From records to events, and from events to letters: pure."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.notify.events import Fact, Seen, Sight, observe
from host.notify.letters import ITEMS, Lanes, delivered, due, failed, noticed

ON = ("approval", "stopped", "pinned", "budget", "seal", "done")
AT = "2026-01-31T10:42:12.345Z"


def fact(key: str = "questions/1", kind: str = "approval", **more: object) -> Fact:
    return Fact(kind, key, AT, f"text of {key}", "details", **more)  # type: ignore[arg-type]


def look(seen: Seen, *facts: Fact, now: float = 0.0, unread: tuple[str, ...] = ()) -> tuple[Seen, tuple[Fact, ...]]:
    return observe(seen, Sight("main", facts, unread), ON, now)


def test_what_holds_is_told_once_and_again_when_it_comes_back() -> None:
    """A second look at the same record is no news; a record that was gone in between is."""
    seen, first = look(Seen("main"), fact())
    seen, again = look(seen, fact())
    seen, gone = look(seen)
    _, back = look(seen, fact())

    assert (len(first), len(again), len(gone), len(back)) == (1, 0, 0, 1)


def test_a_record_that_cannot_be_read_says_what_it_said_before() -> None:
    """Else each such moment would tell everything anew."""
    seen, _ = look(Seen("main"), fact("watcher/pin", "pinned"), fact("ledger/day", "budget"))
    seen, new = look(seen, fact("ledger/day", "budget"), unread=("watcher",))
    assert new == ()

    assert look(seen, fact("watcher/pin", "pinned"))[1] == ()


def test_what_must_hold_for_a_while_is_told_then() -> None:
    """A watcher that is started again at once was never gone."""
    dead = fact("watcher/dead", "stopped", after_seconds=10.0)
    seen, early = look(Seen("main"), dead, now=0.0)
    seen, still = look(seen, dead, now=9.0)
    _, late = look(seen, dead, now=10.5)
    _, other = look(look(seen, now=9.5)[0], dead, now=12.0)

    assert (len(early), len(still), len(late), len(other)) == (0, 0, 1, 0)


def test_kinds_that_the_pm_leaves_out_are_passed_over() -> None:
    """They are not remembered either, so they are told once the PM asks for them."""
    seen, new = observe(Seen("main"), Sight("main", (fact(),)), ("done",), 0.0)

    assert new == ()
    assert len(look(seen, fact())[1]) == 1


def test_at_the_first_look_a_log_is_old_and_what_holds_is_news() -> None:
    """Nothing that waits for the PM is missed because nobody looked before."""
    _, new = look(Seen(), fact("log/1", "seal", is_logged=True), fact())

    assert [each.key for each in new] == ["questions/1"]


def _sent(lanes: Lanes, now: float, ids: int = 0) -> tuple[Lanes, list[dict[str, object]]]:
    """What goes out at `now`, and is delivered."""
    lanes, kinds = due(lanes, "agent", [f"{now}-{kind}-{ids}" for kind in lanes], now)
    letters = [lanes[kind].letter for kind in kinds]
    return {kind: delivered(lane, now) if kind in kinds else lane for kind, lane in lanes.items()}, [
        json.loads(letter.body) for letter in letters if letter
    ]


def test_the_first_goes_out_at_once_and_those_that_follow_are_counted() -> None:
    """One letter for all of a kind within the pause, with times of the first and the last; other kinds do not wait."""
    lanes, first = _sent(noticed({}, [fact()], 100.0, False), 100.0)
    assert [(each["kind"], each["count"]) for each in first] == [("approval", 1)]

    later = [fact(f"questions/{n}")._replace(at=f"2026-01-31T10:4{n}:00.000Z") for n in range(3, 6)]
    lanes = noticed(lanes, [*later, fact("page/1", "done")], 110.0, False)
    lanes, other = _sent(lanes, 111.0)
    assert [each["kind"] for each in other] == ["done"]

    _, [all_of_them] = _sent(lanes, 161.0)
    assert all_of_them["count"] == 3
    assert (all_of_them["first_at"], all_of_them["last_at"]) == (later[0].at, later[-1].at)


def test_pauses_grow_while_events_keep_coming_and_shrink_when_they_stop() -> None:
    """A loop that fails every ten seconds all night is told of a dozen times, and the next real thing at once."""
    lanes: Lanes = {}
    at: list[float] = []
    for now in map(float, range(0, 8 * 3600, 10)):
        lanes, letters = _sent(noticed(lanes, [fact(kind="stopped")], now, False), now)
        at += [now] * len(letters)
    assert at[:4] == [0.0, 60.0, 180.0, 420.0]
    assert len(at) < 16

    lanes, _ = _sent(lanes, 12.0 * 3600)  # what was counted last
    lanes, [alone] = _sent(noticed(lanes, [fact(kind="stopped")], 14.0 * 3600, False), 14.0 * 3600)
    assert alone["count"] == 1
    assert lanes["stopped"].pause == 60.0


def test_a_letter_that_fails_keeps_its_id_and_words_and_is_tried_ever_more_rarely() -> None:
    """What happens meanwhile is counted for the next one."""
    lanes, _ = due(noticed({}, [fact()], 0.0, False), "agent", ["one"], 0.0)
    lanes, _ = due(lanes, "agent", ["never used"], 0.0)
    begun, pauses, now = lanes["approval"].letter, [], 0.0
    for _ in range(14):
        lanes = {"approval": failed(lanes["approval"], now)}
        letter = lanes["approval"].letter
        assert letter
        assert begun
        assert (letter.id, letter.body) == (begun.id, begun.body)
        pauses.append(letter.next_at - now)
        assert due(lanes, "agent", ["x"], letter.next_at - 0.1)[1] == ()
        now = letter.next_at
        lanes = noticed(lanes, [fact()], now, False)
    assert pauses[:3] == [5.0, 10.0, 20.0]
    assert max(pauses) == pauses[-1] == 3600.0
    pending = delivered(lanes["approval"], now).pending
    assert pending
    assert pending.count == 14


@pytest.mark.parametrize("has_details", [True, False])
def test_texts_of_reports_go_along_only_when_asked_for(has_details: bool) -> None:
    """The last events of a letter are named, a bounded number of them."""
    many = [fact(f"page/{n}", "done") for n in range(3 * ITEMS)]
    _, [letter] = _sent(noticed({}, many, 0.0, has_details), 0.0)

    items = letter["items"]
    assert isinstance(items, list)
    assert len(items) == ITEMS
    assert ("details" in items[0]) is has_details
    assert letter["count"] == 3 * ITEMS


def test_a_clock_that_is_put_back_holds_nothing_up() -> None:
    """Moments further away than any pause were set by another clock."""
    lanes, _ = _sent(noticed({}, [fact()], 1e6, False), 1e6)
    lanes = noticed(lanes, [fact()], 1e6, False)

    assert len(_sent(lanes, 1000.0)[1]) == 1


@given(st.lists(st.tuples(st.floats(0, 500), st.integers(0, 3), st.booleans()), max_size=60))
def test_no_event_is_lost_and_none_is_counted_twice(steps: list[tuple[float, int, bool]]) -> None:
    """Whatever fails and whenever: what is sent and what is pending come to what happened."""
    lanes: Lanes = {}
    happened, told, now = 0, 0, 0.0
    for index, (pause, events, fails) in enumerate(steps):
        now += pause
        lanes = noticed(lanes, [fact(f"k/{n}") for n in range(events)], now, False)
        happened += events
        lanes, ready = due(lanes, "agent", [str(index)] * len(lanes), now)
        for kind in ready:
            letter = lanes[kind].letter
            assert letter is not None
            told += 0 if fails else json.loads(letter.body)["count"]
            lanes = {kind: failed(lanes[kind], now) if fails else delivered(lanes[kind], now)}
    left = [lane for lane in lanes.values()]
    open_letters = sum(json.loads(lane.letter.body)["count"] for lane in left if lane.letter)
    assert happened == told + open_letters + sum(lane.pending.count for lane in left if lane.pending)
