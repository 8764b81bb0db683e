"""The PM's files in the cell's clone are put back before each run, and the drift report says so."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.cell.mind import drift
from infra.shared.mind.layout import CORE, DRIFT_REPORTS, IDENTITY, INVARIANTS
from infra.shared.mind.sections import document_of
from infra.shared.requests import Drift
from tests.cell.mind.one_mind import OneMind
from tests.cell.runner.test_web_reads import Door

NOW = 1_769_856_132.0


@pytest.fixture
def mind() -> Iterator[OneMind]:
    root = tempfile.mkdtemp(prefix="minifram-drift-")  # a socket's path must be short
    made = OneMind(root, NOW)
    os.makedirs(made.places.run)
    for path, text in ((IDENTITY, "I am.\n"), (INVARIANTS, "Log.\n"), (f"{CORE}/look/SKILL.md", "look\n")):
        made.write(path, text)
    made.git("add", "--all")
    made.git("commit", "--quiet", "--message", "the PM's")
    made.git("push", "--quiet", "origin", "HEAD:mind")
    made.git("fetch", "--quiet", "origin")
    yield made
    shutil.rmtree(root)


def _sections(mind: OneMind) -> list[str]:
    text = Path(mind.root, DRIFT_REPORTS).read_text(errors="replace")
    return [section.body for section in document_of(text).sections]


def test_a_clone_that_is_right_is_left_alone(mind: OneMind) -> None:
    """Nothing is written, and an agent without a mind has nothing to be told of."""
    drift.settle(mind.context())
    assert mind.git("status", "--porcelain") == ""
    assert not Path(mind.root, DRIFT_REPORTS).exists()
    shutil.rmtree(mind.root)
    drift.settle(mind.context())
    assert not Path(mind.root).exists()


def test_what_was_changed_is_put_back_however_it_was_hidden(mind: OneMind) -> None:
    """Changed behind the index's back, committed, removed, replaced by a link or a directory, or added."""
    mind.git("update-index", "--assume-unchanged", IDENTITY)
    mind.write(IDENTITY, "I am free.\n")
    os.unlink(f"{mind.root}/{INVARIANTS}")
    os.mkdir(f"{mind.root}/{INVARIANTS}")
    shutil.rmtree(f"{mind.root}/{CORE}/look")
    os.symlink("/etc", f"{mind.root}/{CORE}/look")
    mind.write(f"{CORE}/mine/SKILL.md", "mine\n")
    mind.git("add", "--all")
    mind.git("commit", "--quiet", "--message", "mine")

    drift.settle(mind.context())

    assert (mind.read(IDENTITY), mind.read(INVARIANTS), mind.read(f"{CORE}/look/SKILL.md")) == (
        "I am.\n",
        "Log.\n",
        "look\n",
    )
    assert not Path(mind.root, CORE, "mine/SKILL.md").exists()
    assert os.path.isdir("/etc")
    mind.git("add", "--all")
    assert mind.git("diff", "--cached", "--name-only", "origin/mind") == DRIFT_REPORTS
    (said,) = _sections(mind)
    assert "- put back as the branch has it: boot/identity.md\n" in said
    assert mind.notes("mind.put_back")


def test_the_keeps_word_is_in_the_report_once(mind: OneMind) -> None:
    """As long as it says the same; a report of before that was spoiled is no trouble."""
    line = "the branch mind: boot/identity.md was last changed by the agent, and it is the PM's alone"
    mind.write(DRIFT_REPORTS, b"## cut in the mid\xff\xfe")
    door = Door(mind.places.run, Drift((line,), ("2026-01-31: commit 0123 changed 97% of the words",)))

    drift.settle(mind.context())
    drift.settle(mind.context())

    *_, said = _sections(mind)
    assert len(_sections(mind)) == 2
    assert f"- {line}\n" in said
    assert "97% of the words" in said
    door.close()
