"""The profile of the context: what was shown, what the run named, and what a week of runs says of it."""

from __future__ import annotations

import json
from pathlib import Path

from infra.cell.loop.record import Answered
from infra.cell.mind.history import Run
from infra.cell.mind.profile import Citations, compile_week
from infra.shared.conversation import Completion, Text, ToolUse
from infra.shared.mind.layout import IDENTITY, LONG_TERM, WORKING
from tests.shared.rows import each_row

FACT = f"{LONG_TERM}#L-000001"
SHOWN = {IDENTITY: "The careful gardener.\n", f"{WORKING}#Now": "## Now\nKernel modules.\n", FACT: "nginx"}


@each_row(
    "said, done, cited",
    (
        ("Now I deploy staging.", "", []),
        ("As L-000001 says", "", [FACT]),
        ("", "cat /agent/memory/working.md", [f"{WORKING}#Now"]),
        ("\ud800 identity", "sed -n 1p boot/identity.md; echo L-000001", [IDENTITY, FACT]),
    ),
)
def test_a_section_is_cited_by_its_id_or_its_file(said: str, done: str, cited: list[str]) -> None:
    run = Citations()
    run.shown |= SHOWN
    acts = (Text(said), ToolUse("1", "bash", {"command": done}))
    run.seen(Answered("1", Completion(acts, "tool_use", "m")))
    told = run.told()
    assert (told["loaded"].keys(), told["cited"]) == (SHOWN.keys(), cited)
    assert all(tokens > 0 for tokens in told["loaded"].values())


def test_a_week_counts_its_runs_also_when_there_are_none(tmp_path: Path) -> None:
    runs = [
        Run("a", "", end="completed", loaded={FACT: 50, IDENTITY: 9}, cited=(FACT,)),
        Run("b", "", end="budget", loaded={FACT: 50}, cited=("gone.md",)),
    ]
    assert compile_week(str(tmp_path), runs, "2026-W05") == "2 runs were shown 2 sections, and named 1"
    assert json.loads((tmp_path / "logs/health/context-profile-2026-W05.json").read_text()) == {
        "week": "2026-W05",
        "runs": 2,
        "outcomes": {"completed": 1, "budget": 1},
        "sections": [
            {"section": FACT, "loaded": 2, "cited": 1, "completed": 1, "tokens": 100},
            {"section": IDENTITY, "loaded": 1, "cited": 0, "completed": 1, "tokens": 9},
        ],
    }
    assert compile_week(str(tmp_path), (), "2026-W06").startswith("0 runs")
