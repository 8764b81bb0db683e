"""The fold over the log of events: what it keeps, and what it passes over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infra.cell.mind.history import Drafted, DutyStep, History, Moved, Promoted, Trial
from infra.cell.mind.record import tell
from infra.shared.mind.event import name_of
from infra.shared.safe_files import Below
from tests.cell.mind.one_mind import OneMind

DAY = "2026-01-31"
SKILL = "learned/csv-sum@1.0.0"


def raw(
    seq: int, type: str = "skill_execution", tool: str = "bash", run: str = "r1", day: str = DAY, **more: Any
) -> str:
    """A line of the log; `more` may hold `details`, `skill` and what else `metadata` has."""
    skill, metadata = more.pop("skill", None), {"tool": tool, **more}
    event = {"event_type": type, "context": {"triggering_skill": skill}, "metadata": metadata, "run_id": run}
    return json.dumps({**event, "timestamp": f"{day}T10:00:00.000Z", "seq": seq}) + "\n"


def end(seq: int, status: str, run: str = "r1", day: str = DAY, **details: Any) -> str:
    return raw(seq, "task_update", "", run, day, status=status, details={"steps": 3, **details})


def history_of(tmp_path: Path, *lines: str) -> History:
    for line in lines:
        with (tmp_path / name_of(json.loads(line)["timestamp"])).open("a") as file:
            file.write(line)
    history = History()
    history.read(Below(str(tmp_path)))
    return history


def test_a_run_is_told_by_its_events(tmp_path: Path) -> None:
    begun = raw(1, "task_update", "", status="began", details={"directives": ["TASK-001"], "shown": ["a.md#B-000001"]})
    ended = end(5, "max_steps", loaded={"a.md": 12}, cited=["a.md"], completed=[])
    acts = (raw(2, skill=SKILL), raw(3, "note", "note", origins=["a.example"]), raw(4, skill=SKILL))
    found = history_of(tmp_path, begun, *acts, ended)
    run = found.runs["r1"]
    assert (run.end, run.succeeded, run.loaded, run.cited) == ("max_steps", False, {"a.md": 12}, ("a.md",))
    assert [(use.run, use.seq) for use in found.uses[SKILL]] == [(run, 2)]
    assert [(note.tainted, note.shown) for note in found.notes] == [(True, frozenset(run.shown))]
    assert (found.last_seq, found.acts) == (5, 0)


def test_entries_are_told_and_read_again(tmp_path: Path) -> None:
    mind = OneMind(str(tmp_path), 1e9)
    entries = (
        Promoted("item", "k", "L-000001", 3),
        Trial("self_test", SKILL, "h", False),
        Moved("a", "b"),
        Drafted("csv-sum", "h", ("a.example",)),
        DutyStep("daily_summary", DAY, "done"),
    )
    tell(mind.cell(), *entries)
    history = History()
    history.read(Below(mind.places.events))
    assert tuple(told.fact for entry in entries for told in history.entries(type(entry))) == entries
    assert history.origins_of("csv-sum") == ("a.example",)


def test_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    history = history_of(tmp_path, raw(1), raw(2))
    with (tmp_path / name_of(DAY)).open("a") as file:
        file.write(f"torn\n{raw(3)}{raw(4)[:40]}")  # the keep writes at this moment
    history.read(Below(str(tmp_path)))
    with (tmp_path / name_of(DAY)).open("a") as file:
        file.write(raw(4)[40:])
    (tmp_path / name_of("2026-02-01")).write_text(raw(5, day="2026-02-01"))
    history.read(Below(str(tmp_path)))
    assert (len(history.runs["r1"].commands), history.last_seq) == (0, 5)


def test_what_says_too_much_stops_nothing(tmp_path: Path) -> None:
    huge = raw(2, details={"entry": "promoted", "what": "item", "key": "k", "seq": 10**30})
    wrong = [raw(3, details={"entry": 1}), end(4, "completed", completed=1, loaded=[])]
    found = history_of(tmp_path, raw(1), huge, *wrong, raw(6))
    assert (found.last_seq, found.entries(Promoted), found.runs["r1"].end) == (6, [], "")
