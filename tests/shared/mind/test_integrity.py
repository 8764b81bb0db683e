"""The log of events is sound, or it is said what is wrong and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.shared.mind.event import EventProblem, path_of
from infra.shared.mind.integrity import MOST_SHOWN, LogState, log_integrity, problem_with_appending
from infra.shared.mind.layout import EVENTS
from infra.shared.safe_files import Below
from tests.shared.mind.events import DAY
from tests.shared.rows import each_row

SOUND = LogState("", 12, DAY, 3, DAY, 3, ())
FINDING = EventProblem("logs/events/2026-01-31.jsonl", 7, "event 7 is missing")


def test_a_sound_log_is_told_in_one_line() -> None:
    found = log_integrity(SOUND)
    assert (found.is_sound, found.problems, found.warnings) == (True, (), ())
    assert found.words == "12 events, the chain is whole, the keep knows the end of 3 runs"
    fresh = log_integrity(LogState("", 0, "", 0, "", 0, ()))
    assert fresh.is_sound
    assert not fresh.warnings


@each_row(
    "change, words",
    [
        ({"append_problem": "the disk is full"}, "every run ends at once: the disk is full"),
        ({"events": 0, "last_event_at": ""}, "3 runs happened and left no event"),
        ({"chain": [FINDING]}, "2026-01-31.jsonl:7: event 7 is missing"),
    ],
)
def test_what_makes_it_unsound_is_a_problem(change: dict[str, Any], words: str) -> None:
    found = log_integrity(SOUND._replace(**change))
    assert not found.is_sound
    assert words in found.problems[0]


@each_row(
    "change, words",
    [
        ({"last_run_at": "2026-02-03T10:00:00.000Z"}, "the last run was on 2026-02-03"),
        ({"heads": 0}, "noted the end of no run"),
        ({"unread": [FINDING]}, "1 line cannot be read, the first is logs/events/2026-01-31.jsonl:7"),
    ],
)
def test_what_may_have_an_innocent_cause_is_a_warning(change: dict[str, Any], words: str) -> None:
    found = log_integrity(SOUND._replace(**change))
    assert found.is_sound
    assert words in found.warnings[0]


def test_findings_are_bounded() -> None:
    found = log_integrity(SOUND._replace(chain=[FINDING] * 50))
    assert len(found.problems) == MOST_SHOWN + 1
    assert "45 more" in found.problems[-1]


def _file_for_directory(mind: Path) -> None:
    (mind / "logs").write_text("x")


def _no_write(mind: Path) -> None:
    (mind / EVENTS).mkdir(parents=True)
    (mind / EVENTS).chmod(0o555)


def _pipe(mind: Path) -> None:
    (mind / EVENTS).mkdir(parents=True)
    os.mkfifo(mind / path_of(DAY))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda mind: None, ""),
        (_file_for_directory, "no directory"),
        (_no_write, "chmod u+w"),
        (_pipe, "no regular file"),
        (lambda mind: mind.rmdir(), ""),
        (lambda mind: (mind.rmdir(), mind.symlink_to(mind)), "cannot be looked at"),
    ],
)
def test_where_no_event_can_be_added_is_said_without_a_try(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    mind = tmp_path / "mind"
    mind.mkdir()
    make(mind)
    before = sorted(tmp_path.rglob("*"))
    found = problem_with_appending(Below(str(mind)), DAY)
    assert words in found
    assert bool(found) == bool(words)
    assert sorted(tmp_path.rglob("*")) == before
