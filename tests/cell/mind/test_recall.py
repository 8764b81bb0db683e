"""The tool `recall` and its program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.mind.mind import MindRun
from infra.cell.mind.statements import key_of
from infra.cell.tools.tool import Position, Toolbox
from infra.shared.mind.layout import BELIEFS, LONG_TERM
from infra.shared.paths import ROOT
from tests.cell.mind.one_mind import OneMind
from tests.shared.mind.mind_files import belief, item

NOW = 1_769_860_800.0  # 2026-01-31T12:00:00Z


@pytest.fixture
def mind(tmp_path: Path) -> OneMind:
    made = OneMind(str(tmp_path), NOW)
    made.write(BELIEFS, "# Beliefs\n\n" + belief("B-000001", "Deploys run from the branch release.", "deploys"))
    made.write(LONG_TERM, "# Long-term memory\n\n" + item("L-000001", "staging-2", "staging-2 has two gigabytes."))
    return made


def recall(run: MindRun, words: str) -> ToolResult:
    return Toolbox(run.tools()).call(ToolCall("1", "recall", {"words": words}))


def test_the_tool_finds_what_was_written_a_moment_ago(mind: OneMind) -> None:
    run = MindRun(mind.context(), Position("run-1"))
    run.reads("How do deploys run?", True)
    assert recall(run, "kettle").payload.startswith("Nothing in the mind has one of the words: kettle.")
    with open(f"{mind.root}/{LONG_TERM}", "a", encoding="utf-8") as file:
        file.write(item("L-000002", "kettle", "The kettle boils at noon."))
    result = recall(run, "boiling")
    assert "The kettle boils at noon." in result.payload
    assert result.facts["shown"][0] == f"{LONG_TERM}#L-000002"
    assert key_of("kettle", "The kettle boils at noon.") in result.facts["statements"]
    assert {f"{LONG_TERM}#L-000002", f"{BELIEFS}#B-000001"} <= run.shown


def test_what_the_tool_cannot_do_is_said(mind: OneMind) -> None:
    run = MindRun(mind.context(), Position("run-1"))
    mind.write("memory/archive/a.md", b"\0")
    assert "[not searched: memory/archive/a.md: it is binary" in recall(run, "x").payload


@pytest.mark.heavy
def test_the_program_finds_the_mind_beside_the_checkouts(mind: OneMind, tmp_path: Path) -> None:
    checkout = tmp_path / "bot/feature/one/minifram"
    checkout.mkdir(parents=True)
    os.symlink(f"{ROOT}/infra", checkout / "infra")
    env = {**os.environ, "MINIFRAM_WEB_PYTHON": sys.executable}
    program = f"{ROOT}/infra/cell/bin/minifram-mind"
    asked = [program, "recall", "deploying", "--root", mind.root]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True, env=env)
    assert "Deploys run from the branch release." in ran.stdout
