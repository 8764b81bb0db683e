"""The state of taint by itself: no order of events loses what it must hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from infra.shared.taint import state_file
from infra.shared.taint.machine import (
    EVERYTHING,
    MOST_HELD,
    Hold,
    TaintState,
    decided,
    ended,
    goes_on_from_tainted,
    holding,
    looked,
    problem_with_guarded,
    reported,
    served,
)
from infra.shared.verdicts.guarded import is_guarded
from tests.shared.rows import each_row

EVIL = "https://evil.example"


@each_row(
    "path, guards",
    [
        *(
            (path, True)
            for path in ("infra/x", "INFRA/x", "SYSTEM.md", "system.MD", "spec/x", "boot/x", "skills/a/b.md")
        ),
        *(
            (path, True)
            for path in ("requirements.txt", "structlog.py", "x.pth", ".gitattributes", "services.yaml", "a/b.so")
        ),
        *(
            (path, False)
            for path in ("src/a.py", "tests/test_a.py", "notes.md", "COMMS.md", "docs/infra/x", "infrared/x")
        ),
    ],
)
def test_what_is_guarded(path: str, guards: bool) -> None:
    assert is_guarded(path) is guards


EVENTS = st.lists(
    st.one_of(
        st.just(("serve", "")),
        st.tuples(st.sampled_from(["add", "done", "strike", "look"]), st.sampled_from("abc")),
    ),
    max_size=25,
)


@given(EVENTS)
def test_taint_lasts_until_its_work_is_reported_and_other_work_is_asked_for(events: list[tuple[str, str]]) -> None:
    """Whatever the order, and whoever closes a directive. `done` is the report of a run on all that is open."""
    state, open_ids, tainted, waits = TaintState(), set[str](), False, False
    for number, (event, id) in enumerate(events):
        at = float(number)
        if event == "serve":
            state, tainted, waits = served(state, (EVIL,), open_ids, at), True, False
        elif event == "add":
            open_ids.add(id)
        elif event == "strike":
            open_ids.discard(id)
        state, is_at_end = looked(state, open_ids)
        if waits and open_ids:
            tainted = waits = False
        if is_at_end:
            state = ended(state, {}, at)
        if event == "done" and open_ids:
            tied = tuple(open_ids)
            open_ids.clear()
            if id == "b":  # somebody looks between the page and the state
                state, _ = looked(state, open_ids)
            state, waits = reported(state, tied, open_ids, 2.0), tainted
        assert (state.now is not None) == tainted, (event, id)
        assert state_file.decode(state_file.encode(state)) == state


def test_work_that_is_not_known_is_not_over() -> None:
    """The page could not be read when text was served, and a report ticks whatever it does."""
    state = reported(served(TaintState(), (EVIL,), None, 1.0), (), (), 2.0)
    assert looked(state, ["b"])[1] is False


def test_other_work_that_is_done_at_once_was_asked_for() -> None:
    """Whoever ends the taint may look later than the door, which saw the directive."""
    over = reported(served(TaintState(), (EVIL,), ["a"], 1.0), ("a",), (), 2.0)
    assert looked(over, ())[1] is False
    followed, _ = looked(over, ["b"])
    done = reported(followed, ("b",), (), 3.0)
    assert (done, looked(done, ())[1]) == (followed, True)


def test_what_is_held_is_bounded_and_goes_file_by_file() -> None:
    state = ended(served(TaintState(), (EVIL,), "a", 1.0), {"infra/a.py": "one", "skills": "two"}, 2.0)
    assert problem_with_guarded(state, ["src/x", "Infra/A.py"])
    assert problem_with_guarded(state, ["SKILLS/x/y.md"])
    assert not problem_with_guarded(state, ["infra/b.py"])
    assert decided(state, {"infra/a.py": "one", "skills": "three"}).held.keys() == {"infra/a.py"}
    many = holding(state, {f"infra/{number}": "" for number in range(MOST_HELD)}, (EVIL,))
    assert many.held.keys() == {"infra", "skills"}
    filled = decided(many, {"infra": "now", "skills": "two"})
    assert filled.held == {"infra": Hold("now", (EVIL,)), "skills": Hold("two", (EVIL,))}
    assert decided(filled, {"infra": "now", "skills": "two"}) == filled
    wide = holding(filled, {f"{number}.py": "" for number in range(MOST_HELD)}, (EVIL,))
    assert wide.held.keys() == set(EVERYTHING)
    assert [problem_with_guarded(wide, [path]) != "" for path in ("infra/x", "system.MD", "x.py")] == [True] * 3


def test_a_run_that_goes_on_is_as_tainted_as_the_run_was() -> None:
    """By the time in its name; one whose name says none goes on from any."""
    state = ended(served(TaintState(), (EVIL,), "a", 1_800_000_000.0), {}, 1_800_000_100.0)

    def origins(run: str) -> tuple[str, ...]:
        return goes_on_from_tainted(state, {"b": f"Go on from run {run} after step 2. And so on."})

    assert origins("2027-01-15T075500.000Z-0123abcd") == (EVIL,)
    assert origins("2027-01-15T080130.000Z-0123abcd") == (EVIL,)
    assert origins("2027-01-15T080200.000Z-0123abcd") == ()
    assert origins("2027-01-13T080000.000Z-0123abcd") == ()
    assert origins("mine") == (EVIL,)
    assert goes_on_from_tainted(state, {"b": "Go on."}) == ()
