"""Events are written in one form, and each is found by its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infra.shared.mind.event import event_at, event_files, name_of
from infra.shared.safe_files import Below
from tests.shared.mind import events
from tests.shared.mind.events import DAY, encoded, logged

KEYS: dict[str, Any] = {
    "timestamp": None,
    "event_type": None,
    "context": {"task_id", "triggering_skill", "intent"},
    "execution": {"commands", "exit_codes", "duration_ms"},
    "outcomes": {"files_modified", "artifacts_created", "observations"},
    "metadata": {"llm_model", "context_tokens", "confidence", "curiosity_spend"},
}
"""Of the schema: they are there in each line, whatever the event is."""
LINE = encoded(events.event_of("words"))


def test_each_line_holds_all_keys_of_the_schema() -> None:
    raw = json.loads(LINE)
    assert KEYS.keys() <= raw.keys()
    assert all(not below or below <= raw[name].keys() for name, below in KEYS.items())


def test_a_torn_line_costs_itself_alone(tmp_path: Path) -> None:
    """What a later version writes beside is passed over."""
    later = json.dumps(json.loads(LINE) | {"later": [1]}).encode()
    (tmp_path / name_of(DAY)).write_bytes(LINE + LINE[:40] + b"\n" + b"\0\xff\n" + later)
    read = logged(str(tmp_path))
    assert [(each.line, each.event) for each in read] == [(1, events.event_of("words")), (4, events.event_of("words"))]
    assert read[1].place == f"logs/events/{name_of(DAY)}:4"
    assert event_at(Below(str(tmp_path)), f"event {read[1].place}") == events.event_of("words")
    assert event_at(Below(str(tmp_path)), f"logs/events/{name_of(DAY)}:2") is None


def test_only_days_are_files_of_the_log(tmp_path: Path) -> None:
    below = Below(str(tmp_path / "events"))
    assert event_files(below) == []
    events.write_events(below.root, [events.event_of(at="2026-02-01"), events.event_of(at="2026-01-31")])
    (tmp_path / "events" / "notes.txt").touch()
    assert event_files(below) == ["2026-01-31.jsonl", "2026-02-01.jsonl"]
    assert event_files(below, "2026-02-01") == ["2026-02-01.jsonl"]
