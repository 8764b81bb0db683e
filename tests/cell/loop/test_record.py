"""A run stands where its record says: it is gone on with from any line, nothing in it is done twice, and another
version that plays it says what went another way."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.loop.loop import NOT_BEGUN, UNKNOWN, Task, TaskContext, run_task
from infra.cell.loop.progress import IDLE_TO_END
from infra.cell.loop.record import (
    Acted,
    Acting,
    Answered,
    Ended,
    Entered,
    Line,
    NotRecorded,
    Opened,
    Resumed,
    RunRecord,
    Standing,
    Told,
    parse,
    standing,
)
from infra.cell.loop.replay import OUTSIDE, Difference, replay
from infra.cell.loop.ways import News
from infra.cell.run_states import StopReason
from infra.shared.boot import TOOLS
from infra.shared.conversation import Completion
from tests.cell.loop.lives import CONFIG, NEWS, WAYS, Plan, World, by_tools, lived
from tests.cell.loop.records import OPENING, as_file, as_lines, no_room_beyond
from tests.cell.loop.replies import says
from tests.shared.rows import any_text, each_row

CUT = [News("", "The run was cut short.")]


@given(WAYS, NEWS, st.data())
def test_a_run_that_is_cut_anywhere_goes_on_from_there(
    way: tuple[str, list[Completion]], news: list[News], data: st.DataObject
) -> None:
    """Of what its record has nothing is done again, the model sees the same conversation as in the run that nobody cut,
    and both parts together are the record of one run."""
    acts, replies = way
    whole = Plan(replies)
    _, seen = lived(acts, whole, news)
    lines = as_lines(seen, acts)
    answered = [at for at, line in enumerate(lines, 1) if isinstance(line, Answered)]
    if not answered:
        return
    lines = lines[: data.draw(st.integers(answered[0], len(lines)), label="lines on record")]
    known = sum(isinstance(line, Answered) for line in lines)
    world, model = World(), Plan([by_tools(["z"]) if acts == TOOLS else says('[{"type": "shell", "command": "z"}]')])
    result, more = lived(acts, model, CUT, world, standing(lines))

    assert set(world.did) <= {"z"}
    if model.requests and len(whole.requests) > known:
        mine, theirs = model.requests[0].messages, whole.requests[known].messages
        assert mine[:-1] == theirs[:-1]
        assert "The run was cut short." in str(mine[-1])
    both = [*lines, Resumed(), *more, Ended(result.reason.value)]
    assert replay(both).differences == ()


@given(WAYS, NEWS)
def test_what_is_replayed_goes_as_it_went(way: tuple[str, list[Completion]], news: list[News]) -> None:
    """Line for line, whatever the model said and however it ended."""
    acts, replies = way
    result, seen = lived(acts, Plan(replies), news)
    found = replay([*as_lines(seen, acts), Ended(result.reason.value)])
    assert found.differences == ()
    assert found.end == result.reason.value or result.reason in (*OUTSIDE, StopReason.AWAITING_APPROVAL)


def two_calls() -> list[Line]:
    """One step with two calls, whole."""
    _, seen = lived(TOOLS, Plan([by_tools(["a", "b"])]), [])
    return as_lines(seen)


@each_row(
    "lines, answers",
    [
        (2, [NOT_BEGUN, NOT_BEGUN]),
        (3, [UNKNOWN, NOT_BEGUN]),
        (4, ["did a", NOT_BEGUN]),
        (5, ["did a", UNKNOWN]),
        (6, ["did a", "did b"]),
        (7, ["did a", "did b"]),
    ],
)
def test_what_is_not_known_to_be_done_is_said_to_be_so(lines: int, answers: list[str]) -> None:
    """Nobody knows how far a call came that was begun; one that stood behind it was not. The record says so too."""
    world, model = World(), Plan([says("Done.")])
    _, more = lived(TOOLS, model, CUT, world, standing(two_calls()[:lines]))

    *told, words = model.requests[0].messages[-1].content
    assert [result.content.partition("\n[exit")[0] for result in told] == answers  # type: ignore[union-attr]
    assert "cut short" in str(words)
    assert world.did == []
    unsure = [each.content for each in more if isinstance(each, Acted)]
    assert unsure == [each for each in answers if not each.startswith("did")]


def test_counts_go_on_where_they_were() -> None:
    """A model that does the same for ever is not given more of it by a new process."""
    same = [by_tools(["a"])] * 40
    _, seen = lived(TOOLS, Plan(same[:5]), [])
    result, _ = lived(TOOLS, Plan(same), [], before=standing(as_lines(seen)))
    assert (result.reason, result.steps) == (StopReason.NO_OP_LOOP, 1 + IDLE_TO_END)


LINES = st.recursive(
    st.none() | st.booleans() | st.integers() | any_text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["kind", "step_id", "args", "content", "facts", "completion", "request", "at", "run_id", "id", "pm"]


@given(st.integers(0, 9), st.sampled_from(KEYS), LINES)
def test_a_record_that_was_changed_is_refused_or_read(number: int, key: str, value: Any) -> None:
    """It is the agent's own file: nothing in it is an exception of another kind."""
    lines = [json.loads(line) for line in as_file(two_calls()).splitlines()]
    lines[number % len(lines)][key] = value
    with contextlib.suppress(ValueError):
        found = parse(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert isinstance(standing(found), Standing)
        assert replay(found).events >= 0


OPENED, ANSWER = Opened(OPENING), Answered("1", says("a"))


@each_row("lines", [[], [ANSWER], [OPENED, OPENED], [OPENED, Answered("2", says("b"))], [OPENED, ANSWER, ANSWER]])
def test_what_is_not_one_run_is_refused(lines: list[Line]) -> None:
    """Empty, without its opening, two in one; and a gap: what stands after it means something else."""
    with pytest.raises(ValueError, match="transcript"):
        standing(lines)


def test_half_a_line_at_the_end_is_none_and_anywhere_else_it_is_named() -> None:
    """What the record lacks would be done again."""
    assert parse(as_file([OPENED]) + b'{"kind": "answ') == [OPENED]
    for line in (b'{"kind": "answ\n', b"[" * 100_000 + b"\n"):
        with pytest.raises(ValueError, match="line 2 of the transcript cannot be read"):
            parse(as_file([OPENED]) + line + as_file([ANSWER]))


def a_run() -> list[Line]:
    """Three steps, and words after the first."""
    result, seen = lived(TOOLS, Plan([by_tools(["a"]), by_tools(["fail"]), says("Done.")]), [News("", "Look out.")])
    return [*as_lines(seen), Ended(result.reason.value)]


def changed(kind: type[Line], step: int, **facts: Any) -> tuple[Difference, ...]:
    """How a record goes in which the line of this kind and step is another."""
    made = (
        replace(line, **facts) if isinstance(line, kind) and getattr(line, "step", 0) == step else line
        for line in a_run()
    )
    return replay(list(made)).differences


def test_what_goes_another_way_is_told() -> None:
    """Where, what was on record, and what it is now; the first alone."""
    assert replay(a_run()).differences == (), "the control"
    assert changed(Ended, 0, end="no_op_loop") == (Difference("end", "no_op_loop", "completed"),)
    assert changed(Told, 1, own="Go on.") == (Difference("1", "Go on.", ""),)
    [call] = changed(Acted, 1, args={"command": "x"})
    assert (call.where, "'x'" in call.recorded, "'a'" in call.replayed) == ("1.1", True, True)
    with pytest.raises(ValueError, match="cannot be understood"):
        replay([line for line in a_run() if not isinstance(line, Acted)])


def test_what_cannot_be_written_ends_the_run_before_it_is_done(tmp_path: Path) -> None:
    """For want of room in the middle of a line, which the next runner cuts off; or as no line can hold it."""
    path, world, model = tmp_path / "run.jsonl", World(), Plan([by_tools(["a"]), by_tools(["b"]), says("Done.")])
    record = RunRecord(str(path), "run")
    record.append(OPENED)

    def on_disk(line: Line) -> None:
        with no_room_beyond(path.stat().st_size + 10) if world.did == ["a"] else contextlib.nullcontext():
            if not isinstance(line, Entered):
                record.append(line)

    context = TaskContext(model, world.box.call, record=on_disk)
    result = run_task(Task(OPENING), CONFIG, context)
    assert (result.reason, world.did) == (StopReason.NOT_RECORDED, ["a"])
    assert "the run's record cannot be written" in result.text
    assert not path.read_bytes().endswith(b"\n")
    assert [type(line) for line in parse(path.read_bytes())] == [Opened, Answered, Acting]
    record.cut_torn_line()
    record.append(Resumed())
    assert standing(parse(path.read_bytes())).begun == 1
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(NotRecorded):
        record.append(Acted.of("1.1", ToolCall("1", "bash", deep), ToolResult(""), 0.0))
