"""What the watcher makes of an answer: total, and a verdict only where line and status say the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.keep.rehearsal.findings import CandidateTime, Outage
from infra.keep.rehearsal.verdict import (
    TRANSCRIPT_CHARS,
    WHY_CHARS,
    RehearsalVerdict,
    as_line,
    beginning,
    ending,
    exit_of,
    longest_seconds,
    read_verdict,
)
from infra.shared.exit_codes import Exit

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["fit", "why", "step"]), inner),
    max_leaves=8,
)
FIT = b'{"fit": true, "seconds": 2.5}\n'
UNFIT = b'{"fit": false, "seconds": 2.5, "step": "boot", "why": "it ended", "transcript": "words"}\n'
NONE = b'{"fit": null, "seconds": 2.5, "why": "no space"}\n'


def test_each_answer_is_read_as_it_was_meant() -> None:
    """The three that there are."""
    assert read_verdict(FIT, 0) == RehearsalVerdict(True)
    assert read_verdict(UNFIT, 1) == RehearsalVerdict(False, "boot: it ended", "words")
    assert read_verdict(NONE, 75) == RehearsalVerdict(None, "no space")


@given(
    st.binary() | JSON.map(lambda value: json.dumps(value).encode() + b"\n") | st.sampled_from([FIT, UNFIT, NONE]),
    st.integers(-64, 255),
)
@example(b"[" * 70_000 + b"\n", 1)
@example(b"1" * 10_000 + b"\n", 0)
@example(FIT * 5000, 1)
@example(b'{"fit": 1}\n', 0)
@example(b'{"fit": 0, "step": "boot"}\n', 1)
@example(b'{"fit": false, "why": {}, "transcript": []}\n', 1)
@example(b'{"fit": false, "why": "\\ud800\\u001b[2J"}\n', 1)
def test_any_answer_has_a_meaning(stdout: bytes, returncode: int) -> None:
    """Nothing raises, nothing grows; who calls a version unfit, or fit, has said so twice."""
    found = read_verdict(stdout, returncode)

    assert len(found.transcript) <= TRANSCRIPT_CHARS
    assert len(found.why) <= WHY_CHARS + 100
    assert all(char.isprintable() or char == "\n" for char in found.why + found.transcript)
    assert "\0" not in found.why.encode().decode()  # it can be written
    if found.fit is not None:
        assert (json.loads(stdout.splitlines()[-1])["fit"], returncode) == (found.fit, int(not found.fit))
    else:
        assert found.why


@given(st.binary(), st.integers(0, 70))
def test_an_answer_that_is_not_whole_is_none(before: bytes, cut: int) -> None:
    """The control is the same answer, whole, behind whatever else was said."""
    part = UNFIT[: len(UNFIT) - 1 - cut]

    assert read_verdict(part, 1).fit is None
    assert read_verdict(before + b"\n" + UNFIT, 1).fit is False


def test_only_the_end_of_too_many_words_counts() -> None:
    """Somebody who prints without end does not decide what the end means."""
    assert read_verdict(b"x" * 1_000_000 + b"\n" + UNFIT, 1).fit is False
    assert read_verdict(FIT + b"x" * 1_000_000, 0).fit is None


@given(
    st.sampled_from([True, False, None]),
    st.text(max_size=WHY_CHARS),
    st.text(max_size=TRANSCRIPT_CHARS),
    st.floats(0, 1e6),
)
def test_what_is_said_is_read_back(fit: bool | None, why: str, transcript: str, seconds: float) -> None:
    """One line, whatever is in it; a verdict without a reason gets some words."""
    said = RehearsalVerdict(fit, beginning(why), ending(transcript))

    line = as_line(said, "boot", seconds)
    found = read_verdict(line.encode() + b"\n", exit_of(said))

    assert "\n" not in line
    assert found.fit is fit
    if fit is False:
        assert found.transcript == said.transcript
        assert found.why == f"boot: {said.why or 'no reason was given'}"


def test_a_usage_error_or_a_traceback_is_no_verdict() -> None:
    """Python ends with 1 as well when it dies of a bug of ours."""
    for code in (Exit.USAGE, Exit.FAILURE, -9, 127):
        assert read_verdict(b"", code).fit is None


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50)), max_size=200), st.floats(0.1, 20))
def test_patience_ends_and_is_never_shorter_than_it_was_said(pauses: list[tuple[float, float]], seconds: float) -> None:
    """Whatever the machine does: not before that time, not for ever, and a clock that jumps takes a tick at most."""
    patience, now, waited, before = CandidateTime(seconds, 0.0, 0.0), 0.0, 0.0, seconds
    for pause, wait in pauses:
        now, waited = now + pause, waited + wait
        try:
            left = patience.left(now, waited)
        except Outage:
            assert now > seconds
            return
        assert before - CandidateTime.LONGEST_TICK_SECONDS - 1e-9 <= left <= before
        assert left >= seconds - now - 1e-6
        before = left
        if left <= 0:
            return
        assert now <= longest_seconds(seconds)


def test_time_in_which_we_ran_counts_whole() -> None:
    """The control: on an idle machine the time is over when it is over."""
    patience = CandidateTime(2.0, 100.0, 7.0)

    left = [patience.left(100.0 + tick / 20, 7.0) for tick in range(1, 41)]

    assert left[0] > 1.9
    assert abs(left[-1]) < 1e-6


def test_a_busy_machine_gives_more_time_and_not_without_end() -> None:
    """While all wait for a processor, a third of the time counts; while they wait for a half of it, the other half."""
    busy, half = CandidateTime(2.0, 0.0, 0.0), CandidateTime(2.0, 0.0, 0.0)

    ticks = [tick / 20 for tick in range(1, 121)]

    assert next(now for now in ticks if busy.left(now, now) <= 1e-9) == 6.0
    assert next(now for now in ticks if half.left(now, now / 2) <= 1e-9) == 4.0


def test_a_machine_that_stands_still_is_an_outage() -> None:
    """Not run but once in ten seconds: nobody can tell what the candidate would have done."""
    patience = CandidateTime(2.0, 0.0, 0.0)

    with pytest.raises(Outage, match="too slow"):
        list(map(patience.left, (10.0, 20.0, 30.0), (0.0, 0.0, 0.0)))
