"""Events are written in one form and read out of whatever a file holds."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from infra.shared.mind.event import MOST_LINE, event_at, event_files, event_of, logged, name_of
from infra.shared.safe_files import Below
from tests.shared.mind import events
from tests.shared.mind.events import DAY, encoded
from tests.shared.rows import each_row
from tests.shared.texts import any_text

KEYS: dict[str, Any] = {
    "timestamp": None,
    "event_type": None,
    "context": {"task_id", "triggering_skill", "intent"},
    "execution": {"commands", "exit_codes", "duration_ms"},
    "outcomes": {"files_modified", "artifacts_created", "observations"},
    "metadata": {"llm_model", "context_tokens", "confidence", "curiosity_spend"},
}
"""Of the schema: they are there in each line, whatever the event is."""
LINE = encoded(events.event_of("words"))[:-1]


@given(any_text(), st.dictionaries(any_text(), st.none() | st.booleans() | any_text()))
def test_what_is_written_is_read(words: str, details: dict[str, Any]) -> None:
    made = events.event_of(words)
    made = msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, details=details))
    assert encoded(made).count(b"\n") == 1
    assert event_of(encoded(made)) == made


def test_each_line_holds_all_keys_of_the_schema() -> None:
    raw = json.loads(LINE)
    assert KEYS.keys() <= raw.keys()
    assert all(not below or below <= raw[name].keys() for name, below in KEYS.items())
    assert event_of(json.dumps(raw | {"later": [1]}).encode()) == events.event_of("words")


@each_row(
    "line",
    [
        LINE[:40],
        b"\0" * 512,
        LINE[60:],
        b"\xff\xfe\x00binary\x80",
        b'{"a":' + b"[" * 5000,
        b"[]",
        LINE.replace(b"skill_execution", b"invention"),
        LINE.replace(b'"observations":"words"', b'"observations":7'),
        b"x" * (10 * MOST_LINE),
    ],
)
def test_a_line_that_is_no_event_costs_itself_alone(line: bytes) -> None:
    tmp_path = Path(tempfile.mkdtemp())
    (tmp_path / name_of(DAY)).write_bytes(b"\n".join([LINE, line, b"", LINE]))
    read = list(logged(Below(str(tmp_path))))
    assert [(each.line, bool(each.event)) for each in read] == [(1, True), (2, False), (4, True)]
    assert read[2].place == f"logs/events/{name_of(DAY)}:4"
    assert event_at(Below(str(tmp_path)), f"event {read[2].place}") == events.event_of("words")
    assert event_at(Below(str(tmp_path)), read[1].place) is None


def test_only_days_are_files_of_the_log(tmp_path: Path) -> None:
    below = Below(str(tmp_path / "events"))
    assert event_files(below) == []
    events.write_events(below.root, [events.event_of(at="2026-02-01"), events.event_of(at="2026-01-31")])
    (tmp_path / "events" / "notes.txt").touch()
    assert event_files(below) == ["2026-01-31.jsonl", "2026-02-01.jsonl"]
    assert event_files(below, "2026-02-01") == ["2026-02-01.jsonl"]
