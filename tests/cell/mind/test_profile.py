"""The profile of the context: what was placed, what left a trace in the run, and what a week of runs says of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.cell.loop.actions import ToolCall
from infra.cell.loop.loop import Acting, Answered, RunResult
from infra.cell.mind.profile import LEAST_LOADED, LINES, RunProfile, compile_profile, compile_week, keep
from infra.cell.mind.search import Hit
from infra.cell.mind.tiers import DEFAULT, ContextPolicy, assemble
from infra.cell.run_states import StopReason
from infra.shared.conversation import Completion, Text
from infra.shared.mind.layout import IDENTITY, IMPROVEMENTS, LONG_TERM, WORKING
from tests.shared.rows import each_row

NOW = 1_769_860_800.0  # 2026-01-31T12:00:00Z, in 2026-W05
FACT = "Staging listens behind nginx with certificates from letsencrypt."


def profile_of(said: str, done: str = "") -> dict[str, bool]:
    """What was cited in a run with these words and this command, for the directive `deploy staging`."""
    files = {
        IDENTITY: "# Identity\nThe careful gardener.\n",
        WORKING: "# W\n\n## Now\nMigrating kernel modules tomorrow.\n",
    }
    hits = [Hit(LONG_TERM, "L-000001", "L-000001 staging", FACT, 1.0, kind="memory")]
    profile = RunProfile(assemble(ContextPolicy(DEFAULT), files, hits, 9_000), "deploy staging")
    profile.seen(Answered(1, Completion((Text(said),), "tool_use", "m"), 0.1))
    profile.seen(Acting(1, 1, ToolCall("1", "bash", {"command": done})))
    line = profile.line("run-1", RunResult(StopReason.COMPLETED, steps=3), NOW)
    assert json.loads(json.dumps(line)) == line
    assert (line["run"], line["outcome"], line["tokens"] > 0) == ("run-1", "completed", True)
    return {each["section"]: each["cited"] for each in line["loaded"]}


@each_row(
    "said, done, cited",
    (
        ("I deploy staging.", "", ()),
        ("As L-000001 says", "", (f"{LONG_TERM}#L-000001",)),
        ("", "curl nginx; ls certificates letsencrypt", (f"{LONG_TERM}#L-000001",)),
        ("the nginx", "", ()),
        ("", "cat /agent/memory/working.md", (f"{WORKING}#Now",)),
        ("Migrating the kernel modules", "", (f"{WORKING}#Now",)),
    ),
)
def test_a_section_is_cited_by_its_id_its_file_or_its_own_words(said: str, done: str, cited: tuple[str, ...]) -> None:
    loaded = profile_of(said, done)
    assert loaded.keys() == {IDENTITY, f"{WORKING}#Now", f"{LONG_TERM}#L-000001"}
    assert {section for section, is_cited in loaded.items() if is_cited} == set(cited)


def line(section: str, cited: bool = False, at: str = "2026-01-31T12:00:00.000Z", **more: object) -> dict[str, Any]:
    loaded = [{"section": section, "tier": "MEDIUM", "tokens": 50, "cited": cited}]
    return {"at": at, "run": "r", "outcome": "completed", "tokens": 100, "loaded": loaded, **more}


def test_a_week_counts_its_own_runs_and_proposes_what_was_never_used(tmp_path: Path) -> None:
    """Not what was used once, or was placed too seldom to tell, or is the PM's; what is broken counts for nothing."""
    used, seldom = f"{LONG_TERM}#L-000002", f"{LONG_TERM}#L-000003"
    lines: list[Mapping[str, Any]] = [line(f"{LONG_TERM}#L-000001", outcome="budget")] * LEAST_LOADED
    lines += [line(used)] * LEAST_LOADED + [line(used, cited=True)] + [line(seldom)] * (LEAST_LOADED - 1)
    lines += [line(IDENTITY)] * LEAST_LOADED
    lines += [line(seldom, at=at) for at in ("2026-02-02T00:00:00.000Z", "soon", "9999-99-99T00:00:00Z")]
    lines += [{}, {"at": "2026-01-31T12:00:00.000Z", "loaded": [{"section": 1}, None]}]
    profile = compile_profile(lines, "2026-W05")
    assert profile["runs"] == len(lines) - 4
    assert profile["outcomes"]["budget"] == LEAST_LOADED
    assert [each["section"] for each in profile["never_cited"]] == [f"{LONG_TERM}#L-000001"]
    for each in lines:
        keep(str(tmp_path), each)
    with open(tmp_path / LINES, "ab") as file:
        file.write(b'[1]\n{"at": "2026-01-31')
    assert compile_week(str(tmp_path), "2026-W05") == f"{len(lines) - 4} runs, 1 sections placed and never used"
    assert json.loads((tmp_path / "logs/health/context-profile-2026-W05.json").read_text()) == profile
    assert f"{LONG_TERM}#L-000001: placed in {LEAST_LOADED} runs" in (tmp_path / IMPROVEMENTS).read_text()
    assert (tmp_path / LINES).read_text().count("\n") == 1, "the lines of later weeks stay"


def test_a_week_without_runs_has_a_profile_too(tmp_path: Path) -> None:
    assert compile_week(str(tmp_path), "2026-W05").startswith("0 runs")
    assert not os.path.exists(tmp_path / IMPROVEMENTS)
