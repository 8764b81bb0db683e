"""Before the agent becomes another version of itself: who it is can be read, what it does can be recorded."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from infra.cell.mind import preflight
from infra.shared.mind.layout import DAILY, IDENTITY, INVARIANTS
from tests.cell.mind.one_mind import OneMind


@pytest.fixture
def mind(tmp_path: Path) -> OneMind:
    made = OneMind(str(tmp_path), 1_769_856_132.0)
    made.write(IDENTITY, "I am.\n")
    made.write(INVARIANTS, "Log.\n")
    return made


def test_a_sound_mind_may_change_itself_and_so_may_none(mind: OneMind) -> None:
    """Nothing is left behind by the look; without a clone there is nothing to look at."""
    assert preflight.problem(mind.context()) == ""
    assert os.listdir(mind.places.events) == ["2026-01-31.jsonl"]
    assert os.listdir(f"{mind.root}/{DAILY}") == []
    shutil.rmtree(mind.root)
    assert preflight.problem(mind.context()) == ""


def test_each_lack_is_named(mind: OneMind, tmp_path: Path) -> None:
    """A file that is gone, empty, binary or a link; a directory that is a file; and the words say what to do."""
    secret = tmp_path / "elsewhere"
    secret.write_text("I am another.\n")
    os.unlink(f"{mind.root}/{IDENTITY}")
    assert "cannot read boot/identity.md: No such file" in preflight.problem(mind.context())
    os.symlink(secret, f"{mind.root}/{IDENTITY}")
    assert "cannot read boot/identity.md" in preflight.problem(mind.context())
    os.unlink(f"{mind.root}/{IDENTITY}")
    mind.write(IDENTITY, " \n")
    assert "it is empty, or no text; 'git checkout" in preflight.problem(mind.context())
    mind.write(IDENTITY, "I am.\n")
    mind.write(INVARIANTS, b"\xff\xfe\x00")
    assert "cannot read boot/invariants.md: it is empty, or no text" in preflight.problem(mind.context())
    mind.write(INVARIANTS, "Log.\n")
    Path(mind.places.events).write_text("a file where a directory belongs\n")
    said = preflight.problem(mind.context())
    assert "cannot write events (logs/events/)" in said
    assert "say in your report" in said
    os.unlink(mind.places.events)
    mind.write(DAILY, "a file\n")
    assert "cannot write a daily summary" in preflight.problem(mind.context())
    assert [facts["what"] for facts in mind.notes("mind.preflight_failed")][-1] == "write a daily summary (logs/daily/)"
