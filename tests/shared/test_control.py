"""What watcher and runner say to each other in a probe."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.keep.settings import Settings, runner_limits
from infra.shared import control
from infra.shared.control import Heartbeat, ProbeAnswer, ProbeQuestion
from tests.shared.rows import each_row
from tests.shared.texts import any_text

seconds = st.floats(0, 1e14)
hearts = st.builds(Heartbeat, any_text(), seconds, seconds)
answers = st.builds(
    ProbeAnswer,
    *(any_text(max_size=300) for _ in range(4)),
    st.integers(0, 1 << 22),
    hearts,
    any_text(),
    any_text(),
    any_text(),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | any_text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(ProbeAnswer._fields) | any_text(), inner),
)


@given(answers)
def test_an_answer_is_read_as_it_was_written(answer: ProbeAnswer) -> None:
    """On one line, whatever is in it."""
    line = control.answer_line(answer)

    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert control.read_answer(line[:-1]) == answer


@given(any_text(), st.booleans())
def test_a_question_is_read_as_it_was_written(probe: str, doors: bool) -> None:
    """As an answer is."""
    assert control.read_question(control.question_line(ProbeQuestion(probe, doors))[:-1]) == ProbeQuestion(probe, doors)


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_line_is_understood_or_refused_in_words(line: bytes) -> None:
    """There is no third outcome: nothing else is raised."""
    for read in (control.read_answer, control.read_question):
        with contextlib.suppress(ValueError):
            read(line)


GOOD: dict[str, Any] = {
    **{name: "x" for name in ("probe", "boot_id", "branch", "commit", "git", "model")},
    "pid": 7,
    "heart": {"doing": "x", "age": 1, "within": 2.5},
}


@each_row(
    "line, words",
    [
        (b"", "not JSON"),
        (b"[]", "expected an object"),
        (b"\xff", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b" " * 70_000, "over 65536 bytes"),
        (json.dumps(GOOD | {"pid": True}).encode(), "pid is True"),
        (json.dumps(GOOD | {"pid": "7"}).encode(), "pid is '7'"),
        (json.dumps(GOOD | {"branch": None}).encode(), "branch is None; expected a text"),
        (json.dumps(GOOD | {"heart": 1}).encode(), "heart is 1"),
        (
            json.dumps(GOOD | {"heart": {"doing": "x", "age": float("nan"), "within": 1}}).encode(),
            "NaN is not a number",
        ),
        (json.dumps(GOOD | {"heart": {"doing": "x", "age": -1, "within": 1}}).encode(), "heart.age is -1"),
        (json.dumps(GOOD).replace("2.5", "1e999").encode(), "heart.within is inf"),
        (json.dumps(GOOD).replace("2.5", "1" * 400).encode(), "heart.within is 1111"),
        (json.dumps(GOOD).replace("2.5", "1" * 5000).encode(), "not JSON"),
        (json.dumps(GOOD).replace("2.5", "true").encode(), "heart.within is True"),
    ],
)
def test_what_is_odd_is_named(line: bytes, words: str) -> None:
    """The control: the same answer without the oddity is read, with keys that nobody knows."""
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        control.read_answer(line)
    assert control.read_answer(json.dumps(GOOD | {"new": 1}).encode()).heart == Heartbeat("x", 1.0, 2.5)


def test_the_longest_promise_covers_each_wait() -> None:
    """By default a whole run; and never less than a row of git calls."""
    limits = runner_limits(Settings())

    assert control.longest_promise(limits) == limits.run_seconds + control.SLACK_SECONDS
    short = limits._replace(run_seconds=1, work_seconds=1, bash_seconds=1, validation_seconds=1)
    assert control.longest_promise(short) == control.TENDING_SECONDS + control.SLACK_SECONDS
