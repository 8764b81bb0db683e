"""What the watcher makes of an answer: total, plain and bounded."""

from __future__ import annotations

import json

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from infra.keep.rehearsal.verdict import TRANSCRIPT_CHARS, WHY_CHARS, RehearsalVerdict, read_verdict
from infra.shared.text import plain

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["fit", "why"]), inner),
    max_leaves=8,
)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode() + b"\n"))
@example(b"")
@example(b"[" * 70_000 + b"\n")
@example(b'{"fit": 1}\n')
@example(b'{"fit": false, "why": {}, "transcript": []}\n')
@example(b'{"fit": false, "why": "\\ud800\\u001b[2J"}\n')
@example(json.dumps({"fit": None, "why": "\x1b" * 10_000, "transcript": "\x1b" * 10_000}).encode())
def test_any_answer_has_a_meaning(said: bytes) -> None:
    """Nothing raises, nothing grows, and a verdict is in the last line."""
    found = read_verdict(said)

    assert len(found.transcript) <= TRANSCRIPT_CHARS
    assert len(found.why) <= WHY_CHARS
    assert all(char.isprintable() or char == "\n" for char in found.why + found.transcript)
    if found.fit is not None:
        assert json.loads(said.rstrip().splitlines()[-1])["fit"] is found.fit


@given(
    st.sampled_from([True, False, None]), st.text(max_size=WHY_CHARS), st.text(max_size=TRANSCRIPT_CHARS), st.binary()
)
def test_what_is_said_is_read_back(fit: bool | None, why: str, transcript: str, before: bytes) -> None:
    """One line, whatever is in it, behind whatever else was said; one that is not whole is none."""
    said = RehearsalVerdict(fit, plain(why), plain(transcript))
    line = msgspec.json.encode(said)

    assert b"\n" not in line
    assert read_verdict(before + b"\n" + line + b"\n") == said
    for cut in range(1, 30):
        assert read_verdict(line[:-cut]).fit is None
