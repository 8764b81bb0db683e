"""`minifram skills`: what the agent has learned to do, and the PM's word on it."""

from __future__ import annotations

import pytest

from infra.shared.mind.layout import SKILLS_INDEX
from tests.cell.mind.test_skills import PATH, SKILL
from tests.host.desk import Desk

TEXT = SKILL.replace("  - core/files@1.0.0\n  - core/shell@2.1.0\n", "")
CORE = TEXT.replace("csv-sum", "files").replace("status: candidate", "status: core")
LEARNED = "skills/learned/csv-sum/SKILL.md"


@pytest.fixture
def skilled(desk: Desk) -> Desk:
    desk.puts_mind(
        {
            PATH: TEXT,
            "skills/candidates/csv-sum/sum.awk": "{ s += $1 }\n",
            "skills/core/files/SKILL.md": CORE,
        }
    )
    return desk


def of_mind(desk: Desk, path: str) -> str:
    return desk.git()("cat-file", "blob", f"refs/heads/mind:{path}") + "\n"


def test_skills_are_listed_and_shown(skilled: Desk) -> None:
    """With their state, version and confidence; and one with its text."""
    core, candidate = skilled.done("skills", "list", "--json").json["skills"]
    assert (core["name"], core["state"]) == ("files", "core")
    assert (candidate["name"], candidate["confidence"]) == ("csv-sum", 0.5)
    assert "candidates csv-sum 0.1.0    confidence 0.50\n" in skilled.done("skills", "list").out
    assert "1. Run awk." in skilled.done("skills", "show", "csv-sum").out
    shown = skilled.done("skills", "show", "csv-sum", "--json").json
    assert (shown["schema"], shown["skill"]) == ("minifram.skills-show/1", "candidates/csv-sum@0.1.0")
    assert skilled.run("skills", "show", "nothing").code == 4


def test_the_pm_promotes_and_retires_by_commits(skilled: Desk) -> None:
    done = skilled.done("skills", "promote", "csv-sum", "--json").json
    assert (done["skill"], done["to"]) == ("candidates/csv-sum@0.1.0", "learned/csv-sum@0.1.0")
    text = of_mind(skilled, LEARNED)
    assert "status: learned" in text
    assert of_mind(skilled, "skills/learned/csv-sum/sum.awk") == "{ s += $1 }\n"
    assert "`learned/csv-sum@0.1.0`: Sum a column: of a CSV file. Confidence: 0.50" in of_mind(skilled, SKILLS_INDEX)
    assert skilled.run("skills", "promote", "csv-sum").code == 4, "there is no candidate of that name any more"

    skilled.done("skills", "retire", "csv-sum")
    retired = of_mind(skilled, "skills/deprecated/csv-sum/SKILL.md")
    assert "status: deprecated" in retired
    assert "csv-sum" not in of_mind(skilled, SKILLS_INDEX)
    log = skilled.git()("log", "--format=%s", "refs/heads/mind").splitlines()
    assert log[:2] == ["skill: retire learned/csv-sum@0.1.0", "skill: promote candidates/csv-sum@0.1.0"]


def test_a_promoted_new_version_deprecates_the_old_one(skilled: Desk) -> None:
    skilled.done("skills", "promote", "csv-sum")
    skilled.puts_mind({PATH: TEXT.replace("0.1.0", "0.2.0")})
    skilled.done("skills", "promote", "csv-sum")
    assert "version: 0.2.0" in of_mind(skilled, LEARNED)
    assert "successor: learned/csv-sum@0.2.0" in of_mind(skilled, "skills/deprecated/csv-sum/SKILL.md")


def test_what_cannot_be_done_is_said(skilled: Desk) -> None:
    assert skilled.run("skills", "retire", "files").code == 4
    assert skilled.run("skills", "retire", "core/files").code == 4
    assert skilled.run("skills", "show", "nowhere/csv-sum").code == 4
    skilled.puts_mind(
        {"skills/candidates/bad/SKILL.md": "<<<<<<< HEAD\n", "skills/candidates/big/SKILL.md": "x" * 300_000}
    )
    problems = skilled.done("skills", "list", "--json").json["problems"]
    assert len(problems) == 2
    assert "bad/SKILL.md:1: expected fields between" in problems[0]
    assert skilled.run("skills", "promote", "bad").code == 4
