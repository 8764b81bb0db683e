"""Events are written in one form, read out of whatever a file holds, and checked as a chain."""

from __future__ import annotations

import io
import json
import random
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.event import (
    GENESIS,
    MOST_LINE,
    MindEvent,
    chained,
    each_event,
    encoded,
    hash_of,
    lines_of,
    path_of,
)
from infra.cell.mind.event_chain import MOST_FINDINGS, verify
from infra.shared.mind.heads import Head
from tests.shared.mind.events import DAY, chain_of, event_of, files_of, lines_in
from tests.shared.rows import each_row
from tests.shared.test_secret_shapes import MAKERS
from tests.shared.texts import any_text

PATH = path_of(DAY)
KEYS: dict[str, Any] = {
    "timestamp": None,
    "event_type": None,
    "context": {"task_id", "triggering_skill", "intent"},
    "execution": {"commands", "exit_codes", "duration_ms"},
    "outcomes": {"files_modified", "artifacts_created", "observations"},
    "metadata": {"llm_model", "context_tokens", "confidence", "curiosity_spend"},
}
"""Of the schema: they are there in each line, whatever the event is."""


def head_of(event: MindEvent) -> Head:
    return Head(event.run_id, event.seq, event.hash, event.timestamp, 1)


@given(
    any_text(),
    st.dictionaries(
        any_text(), st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | any_text()
    ),
)
def test_what_is_written_is_read_and_fits_its_hash(words: str, details: dict[str, Any]) -> None:
    made = event_of(words)
    made = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, details=details))
    event = chained(made, None)
    line = encoded(event)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert [each.event for each in each_event([line[:-1]], PATH)] == [event]
    assert event.hash == hash_of(json.loads(line))
    assert (event.seq, event.previous) == (1, GENESIS)
    assert not verify(each_event([line[:-1]], PATH), [head_of(event)])


def test_each_line_holds_all_keys_of_the_schema() -> None:
    raw = json.loads(encoded(chained(event_of(), None)))
    assert KEYS.keys() <= raw.keys()
    for name, below in KEYS.items():
        assert not below or below <= raw[name].keys()


def test_secrets_are_out_before_the_hash_is_made() -> None:
    secret = (
        MAKERS["Anthropic"](random.Random(1))
        if "Anthropic" in MAKERS
        else next(iter(MAKERS.values()))(random.Random(1))
    )
    event = chained(event_of(f"key {secret}"), None)
    assert secret not in encoded(event).decode()
    assert "[secret]" in event.context.intent
    assert not verify(each_event([encoded(event)[:-1]], PATH), [head_of(event)])


def test_details_that_json_cannot_hold_are_refused() -> None:
    for wrong in (float("nan"), object()):
        event = event_of()
        event = msgspec.structs.replace(event, metadata=msgspec.structs.replace(event.metadata, details={"x": wrong}))
        with pytest.raises((ValueError, TypeError)):
            chained(event, None)


LINE = encoded(chained(event_of("words"), None))[:-1]


@each_row(
    "line, says",
    [
        (LINE[:40], "cut short"),
        (LINE[:3], "cut short"),
        (b"\0" * 512, "cut short"),
        (LINE[60:], "no JSON"),
        (b"\xff\xfe\x00binary\x80", "no JSON"),
        (b'{"a":' + b"[" * 5000, "no JSON"),
        (b"[]", "no event"),
        (b'"text"', "no event"),
        (LINE.replace(b"skill_execution", b"invention"), "no event"),
        (LINE.replace(b'"observations":"words"', b'"observations":7'), "no event"),
        (b"x" * (MOST_LINE + 1), "more than"),
    ],
)
def test_a_line_that_is_no_event_is_named_and_the_others_count(line: bytes, says: str) -> None:
    read = list(each_event([LINE, line, b"", LINE], PATH))
    problems = [each.problem for each in read if each.problem]
    assert len(read) == 3
    assert [(each.path, each.line) for each in problems] == [(PATH, 2)]
    assert says in problems[0].words
    assert str(problems[0]).startswith(f"{PATH}:2: ")


def test_what_a_later_version_writes_beside_is_passed_over_and_part_of_the_chain() -> None:
    raw = json.loads(LINE) | {"later": {"a": [1, None]}}
    raw["hash"] = hash_of(raw)
    line = json.dumps(raw, separators=(",", ":")).encode()
    [read] = each_event([line], PATH)
    assert read.event
    assert read.event.outcomes.observations == "words"
    assert not verify(each_event([line], PATH))
    assert verify(each_event([line.replace(b"[1,", b"[2,")], PATH))


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader_or_the_check(content: bytes) -> None:
    lines = list(each_event(lines_of(io.BytesIO(content)), PATH))
    assert all((each.event is None) == bool(each.why) for each in lines)
    assert isinstance(verify(lines), list)


def test_a_line_of_ten_megabytes_costs_its_own_line_alone() -> None:
    file = io.BytesIO(LINE + b"\n" + b"y" * (10 << 20) + b"\n" + LINE)
    read = list(each_event(lines_of(file), PATH))
    assert [(each.line, bool(each.event)) for each in read] == [(1, True), (2, False), (3, True)]


DAYS = st.lists(st.sampled_from(["2026-01-30", "2026-01-31", "2026-02-01", "9999-12-31"]), min_size=1, max_size=12)


@given(DAYS)
def test_a_chain_is_whole_whatever_the_clock_did(days: list[str]) -> None:
    """Set back over midnight, or to another millennium and back: events lie in the files of the days that it told."""
    events = chain_of(event_of(str(number), f"{day}T00:00:00.000Z") for number, day in enumerate(days))
    assert not verify(lines_in(files_of(events)), [head_of(events[-1])])


@given(DAYS, st.data())
def test_any_change_of_a_line_before_a_head_is_seen(days: list[str], data: st.DataObject) -> None:
    events = chain_of(event_of(str(number), f"{day}T00:00:00.000Z") for number, day in enumerate(days))
    files = files_of(events)
    path = data.draw(st.sampled_from(sorted(files)))
    lines = files[path].splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    before = list(lines)
    match data.draw(st.sampled_from(["byte", "drop", "twice", "swap", "cut", "rewrite", "insert"])):
        case "byte":
            where = data.draw(st.integers(0, len(lines[at]) - 1))
            lines[at] = lines[at][:where] + bytes([data.draw(st.integers(0, 255))]) + lines[at][where + 1 :]
        case "drop":
            del lines[at]
        case "twice":
            lines.insert(data.draw(st.integers(0, len(lines))), lines[at])
        case "swap":
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        case "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at]) - 1))]
        case "rewrite":  # with a hash of its own
            raw = json.loads(lines[at])
            raw["outcomes"]["observations"] += "!"
            lines[at] = json.dumps(raw | {"hash": hash_of(raw)}, separators=(",", ":")).encode()
        case "insert":
            lines.insert(at, encoded(chained(event_of("new"), events[at]))[:-1])
    changed = verify(lines_in(files | {path: b"\n".join(lines)}), [head_of(events[-1])])
    assert bool(changed) == (lines != before)


def test_a_tail_that_was_written_anew_meets_the_noted_head() -> None:
    events = chain_of(event_of(str(number)) for number in range(4))
    anew = chain_of(event_of(words) for words in ("0", "1", "other", "3"))
    assert not verify(lines_in(files_of(anew))), "without a head nothing tells the two apart"
    assert "rewritten" in verify(lines_in(files_of(anew)), [head_of(events[3])])[0].words
    assert "missing" in verify(lines_in(files_of(events[:2])), [head_of(events[3])])[0].words


def test_what_power_cuts_left_is_no_finding_and_what_others_wrote_is() -> None:
    lines = [encoded(event)[:-1] for event in chain_of(event_of(str(number)) for number in range(3))]
    torn = [lines[0], lines[1][:50], lines[1], b"\0\0\0", lines[2], lines[2][:9]]
    assert not verify(each_event(torn, PATH))
    found = verify(each_event([lines[0], b"rm -rf", *lines[1:], b"{}"], PATH))
    assert [each.line for each in found] == [2, 5]


def test_findings_are_bounded() -> None:
    found = verify(each_event([b"no"] * 1000, PATH))
    assert len(found) == MOST_FINDINGS + 1
    assert "more" in found[-1].words


@pytest.mark.long
def test_fifty_megabytes_are_checked_in_bounded_memory() -> None:
    import tracemalloc

    event, content = None, io.BytesIO()
    while content.tell() < 50 << 20:
        event = chained(event_of("w" * 600), event)
        content.write(encoded(event))
    content.seek(0)
    tracemalloc.start()
    began = time.monotonic()
    assert event
    assert not verify(each_event(lines_of(content), PATH), [head_of(event)])
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    assert time.monotonic() - began < 120
    tracemalloc.stop()
