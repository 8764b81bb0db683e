"""The keep's record of the chain's heads: forward only, and never another event in the place of one."""

from __future__ import annotations

import os
import time
from pathlib import Path

from infra.keep.mind import heads
from infra.shared.door import Failure
from infra.shared.mind.heads import FILE, Head, line_of, read_heads
from infra.shared.requests import MAX_HEADS, AskHeads, Done, Heads, HeldHead, NoteHead

A, B = "a" * 64, "b" * 64


def _note(var: Path, run: str, seq: int, hash: str = A) -> Done | Failure:
    return heads.note(str(var), NoteHead(run, seq, hash, seq), 1_769_856_132.0)


def test_heads_go_forward_and_stay(tmp_path: Path) -> None:
    """Told twice, or by a run without an event, one line; back, or another event in one place: refused, and nothing is
    written; nor when the file has grown beyond all runs."""
    assert _note(tmp_path, "one", 3) == Done("")
    assert _note(tmp_path, "one", 3) == Done("")
    assert _note(tmp_path, "two", 3) == Done("")
    assert _note(tmp_path, "three", 7, B) == Done("")

    back, other = _note(tmp_path, "four", 6), _note(tmp_path, "four", 7, A)

    assert isinstance(back, Failure)
    assert "events are missing" in back.message
    assert isinstance(other, Failure)
    assert "rewritten" in other.message
    found = read_heads((tmp_path / FILE).read_bytes())
    assert found == [
        Head(run, seq, hash, "2026-01-31T10:42:12.000Z", seq) for run, seq, hash in (("one", 3, A), ("three", 7, B))
    ]
    os.truncate(tmp_path / FILE, heads.MOST_BYTES + 1)
    full = _note(tmp_path, "five", 8)
    assert isinstance(full, Failure)
    assert "more than runs fill" in full.message
    (tmp_path / FILE).rename(tmp_path / "aside")
    assert _note(tmp_path, "six", 2) == Done("")


def test_a_torn_line_is_no_trouble(tmp_path: Path) -> None:
    _note(tmp_path, "one", 9)
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"run": "one", "seq": 1, "hash": "", "at": ""}\n')  # which does not say since when
        file.write(b'{"run": "torn')
    assert _note(tmp_path, "two", 10) == Done("")
    assert [each.seq for each in read_heads((tmp_path / FILE).read_bytes())] == [9, 10]


def test_a_wider_head_of_the_same_event_is_taken(tmp_path: Path) -> None:
    """Somebody was quicker, and told of the run's last event alone; a narrower one says nothing new."""
    for since in (5, 2, 4, 2):
        assert heads.note(str(tmp_path), NoteHead("run", 5, A, since), 0.0) == Done("")
    assert heads.held(str(tmp_path), AskHeads()) == Heads((HeldHead(5, 5, A), HeldHead(2, 5, A)))


def test_older_heads_come_in_pages_that_are_found_without_reading_all(tmp_path: Path) -> None:
    """Of sixteen megabytes, as the cell may ask for any of them at any time."""
    every = [line_of(Head("run", seq, A, "2026-01-31T10:42:12.000Z", 1)) for seq in range(1, 100_001)]
    every[59_990] += b'{"run": "torn\n' * 5
    (tmp_path / FILE).write_bytes(b"".join(every))
    started = time.process_time()
    for below in (100_001, 60_000, 40_000, 5):
        reply = heads.held(str(tmp_path), AskHeads(below))
        assert isinstance(reply, Heads)
        assert [head.seq for head in reply.heads] == [*range(max(1, below - MAX_HEADS), below)]
    assert time.process_time() - started < 4
