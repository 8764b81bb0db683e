"""`minifram events`: what the agent did, as the PM sees it, and whether the record is what was written."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from host.agent.events import Chosen, follow, log_state, since_of
from host.errors import CommandError
from infra.cell.mind.event_writer import EventWriter
from infra.keep.mind.heads import MOST_BYTES, note
from infra.shared.mind.event import ChainTip, MindEvent, path_of
from infra.shared.mind.heads import FILE, Head, line_of
from infra.shared.mind.integrity import log_integrity
from infra.shared.requests import Done, NoteHead, Refused
from tests.host.desk import Desk
from tests.shared.mind.events import DAY, event_of
from tests.shared.rows import each_row

KEY = "ghp_" + "R7vK2mQ9xW4bT8nL3cJ6hD5fZ1gS0pYaUeIo"
NOW = 1769856132.0


class Mind:
    """The agent's, as its runner writes it."""

    def __init__(self, desk: Desk) -> None:
        self.home = desk.home()
        self.path = Path(self.home.places.mind)
        self.writer = EventWriter(str(self.path), lambda word, **facts: None)

    def write(self, event: MindEvent) -> ChainTip:
        return self.writer.append(event)

    def head(self, run: str, tip: ChainTip) -> None:
        with open(Path(self.home.places.var) / FILE, "ab") as file:
            file.write(line_of(Head(run, *tip, DAY)))

    def change(self, old: bytes, new: bytes, at: str = DAY) -> None:
        path = self.path / path_of(at)
        path.write_bytes(path.read_bytes().replace(old, new))


def of(task: str, run: str, *ids: str, type: str = "task_update", at: str = DAY) -> MindEvent:
    event = event_of("words", at, run, "")
    return msgspec.structs.replace(
        event,
        event_type=type,
        context=msgspec.structs.replace(event.context, task_id=task),
        metadata=msgspec.structs.replace(event.metadata, details={"directives": list(ids)} if ids else {}),
    )


def test_events_are_shown_and_chosen(desk: Desk) -> None:
    none = desk.done("events")
    assert (none.out, "no event yet" in none.err) == ("", True)
    mind = Mind(desk)
    mind.write(of("TASK-001", "run-1", "TASK-001", "TASK-002", at="2026-01-29T10:00:00.000Z"))
    mind.write(event_of("x", "2026-01-29T10:00:01.000Z"))
    mind.write(of("TASK-003", "run-2", "TASK-003"))
    mind.write(of("TASK-003", "run-2", type="error"))
    shown = desk.done("events").out
    assert shown.count("run-") == 4
    assert "    $ true" in shown

    def runs(*words: str) -> list[str]:
        return [each["run_id"] for each in desk.done("events", "--json", *words).json["events"]]

    assert runs("--task", "TASK-002") == ["run-1", "run-1"]
    assert runs("--task", "TASK-003", "--type", "error") == ["run-2"]
    assert runs("--run", "run-1") == ["run-1", "run-1"]
    assert runs("--since", "2026-01-30") == ["run-2", "run-2"]
    assert runs("--tail", "1") == ["run-2"]
    assert "leave out a condition" in desk.done("events", "--run", "nobody").err


def test_what_the_agent_wrote_there_is_harmless_and_holds_no_key(desk: Desk) -> None:
    mind = Mind(desk)
    mind.write(event_of("before"))
    mind.change(b'"-c","true"', b'"-c","\\u001b[2J ' + KEY.encode() + b' \\u202e"')
    with open(mind.path / path_of(DAY), "ab") as file:
        file.write(b"rm -rf \x1b[2J\n" + b"\xff" * 100 + b"\n")
    for words in (["events"], ["events", "--json"], ["events", "--verify"]):
        ended = desk.run(*words)
        assert KEY not in ended.out + ended.err
        assert "\x1b" not in ended.out + ended.err
    assert "[secret]" in desk.done("events").out
    assert f"{path_of(DAY)}:2" in desk.done("events").err


def test_a_chain_is_verified_against_what_the_keep_noted(desk: Desk) -> None:
    assert "no event yet" in desk.done("events", "--verify").out
    mind = Mind(desk)
    for number in range(3):
        tip = mind.write(event_of(str(number)))
    mind.head("run-1", tip)
    whole = desk.done("events", "--verify")
    assert f"last 3 {tip.hash}" in whole.out
    assert "noted the end of 1 run" in whole.out
    mind.change(b'"observations":"1"', b'"observations":"!"')
    changed = desk.run("events", "--verify", "--json")
    assert (changed.code, [each["line"] for each in changed.json["findings"]]) == (8, [2])
    assert desk.run("events", "--verify").code == 8
    (mind.path / path_of(DAY)).unlink()
    gone = desk.run("events", "--verify")
    assert gone.code == 8
    assert "is missing" in gone.out
    assert desk.run("events", "--verify", "--run", "x").code == 2


def test_the_pm_accepts_a_loss_and_the_keep_notes_heads_again(desk: Desk) -> None:
    """As after a clone that is gone, or an older backup: the chain is shorter than what the keep has noted."""
    mind = Mind(desk)
    assert desk.run("events", "--verify", "--accept").code == 6, "nothing is to be accepted"
    assert desk.run("events", "--accept").code == 2
    for number in range(5):
        mind.head("run-1", mind.write(event_of(str(number))))
    (mind.path / path_of(DAY)).unlink()
    mind = Mind(desk)
    var = mind.home.places.var
    tip = mind.write(event_of("anew"))
    assert isinstance(note(var, NoteHead("run-2", *tip), NOW), Refused)
    assert "--accept" in desk.run("events", "--verify").err
    before = Path(var, FILE).read_bytes()

    assert f"last 1 {tip.hash}" in desk.done("events", "--verify", "--accept").out

    assert Path(var, FILE).read_bytes().startswith(before)
    assert note(var, NoteHead("run-2", *mind.write(event_of("more"))), NOW) == Done("")
    assert isinstance(note(var, NoteHead("run-3", *tip), NOW), Refused), "not below what is noted since"
    desk.done("events", "--verify")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/etc/passwd", path)])
def test_what_is_no_file_is_named_and_left_alone(desk: Desk, make: object) -> None:
    mind = Mind(desk)
    mind.write(event_of("one"))
    make(mind.path / path_of("2026-02-01"))  # type: ignore[operator]
    ended = desk.done("events")
    assert "run-1" in ended.out
    assert "2026-02-01" in ended.err
    assert "root:" not in ended.out + ended.err
    assert desk.run("events", "--verify").code == 8


def test_the_state_of_the_log_is_what_the_health_check_judges(desk: Desk) -> None:
    assert log_integrity(log_state(desk.home(), NOW)._replace(append_problem="")).is_sound
    mind = Mind(desk)
    tip = [mind.write(event_of(str(number))) for number in range(3)][-1]
    mind.head("2026-01-31T104212.000Z-aaaaaaaa", tip)
    state = log_state(desk.home(), NOW)
    assert (state.events, state.last_event_at, state.heads, state.runs) == (3, DAY, 1, 1)
    assert (state.append_problem, log_integrity(state).problems, state.unread) == ("", (), [])
    mind.change(b"TASK-001", b"TASK-002")
    assert not log_integrity(log_state(desk.home(), NOW)).is_sound


def test_new_events_are_followed(desk: Desk) -> None:
    mind = Mind(desk)
    mind.write(event_of("one"))
    to_write = [event_of("two"), event_of("three", "2026-02-01T00:00:00.000Z")]
    seen = follow(desk.home(), Chosen(), 10, lambda seconds: mind.write(to_write.pop(0)) and None)
    assert [next(seen).outcomes.observations for _ in range(3)] == ["one", "two", "three"]


@each_row(
    "text, since",
    [
        ("", ""),
        ("2d", "2026-01-29T10:42:12.000Z"),
        ("30min", "2026-01-31T10:12:12.000Z"),
        ("99999w", "1970-01-01T00:00:00.000Z"),
        ("2026-01-31", "2026-01-31"),
        ("2026-01-31T10:42:12Z", "2026-01-31T10:42:12Z"),
    ],
)
def test_since_is_a_time_or_a_distance(text: str, since: str) -> None:
    assert since_of(text, NOW) == since


@each_row("text", ["yesterday", "2x", "2026-13-01", "2026-01-31T10", "-1d", "99999999999d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is no time"):
        since_of(text, NOW)


def test_a_record_that_somebody_filled_is_begun_anew_by_accepting(desk: Desk) -> None:
    """The cell says how often a head is noted; the newest ones are read."""
    mind = Mind(desk)
    var, tip = mind.home.places.var, mind.write(event_of("one"))
    mind.head("run-1", tip)
    os.truncate(Path(var, FILE), MOST_BYTES + 1)
    with open(Path(var, FILE), "ab") as file:
        file.write(b"\n")
    mind.head("flood", ChainTip(10**9, "a" * 64))
    assert isinstance(note(var, NoteHead("run-2", 10**9 + 1, "b" * 64), NOW), Refused)
    assert desk.run("events", "--verify").code == 8
    desk.done("events", "--verify", "--accept")
    assert note(var, NoteHead("run-2", *mind.write(event_of("two"))), NOW) == Done("")
    desk.done("events", "--verify")
