"""`minifram skills`: what the agent has learned to do, and the PM's word on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cell.mind.event_writer import EventWriter
from infra.shared.mind.event import EventContext, EventMetadata, EventType, Execution, MindEvent, Outcomes
from infra.shared.mind.layout import SKILLS_INDEX
from infra.shared.mind.skill_graph import graph_problems
from infra.shared.mind.skill_index import lines_of
from infra.shared.mind.skill_record import COMPARISON, TrialDetails
from infra.shared.mind.skills import folder_hash, skills_of
from tests.host.desk import Desk
from tests.shared.mind.test_skills import PATH, SKILL

TEXT = SKILL.replace("dependencies:\n  - core/files@1.0.0\n", "").replace(
    "- core/files@1.0.0\n- `core/shell@2.1.0`", "- None"
)
CORE = TEXT.replace("csv-sum", "files").replace("status: candidate", "status: core")
LEARNED = "skills/learned/csv-sum/SKILL.md"


@pytest.fixture
def skilled(desk: Desk) -> Desk:
    desk.puts_mind(
        {
            PATH: TEXT,
            "skills/candidates/csv-sum/sum.awk": "{ s += $1 }\n",
            "skills/core/files/SKILL.md": CORE,
            SKILLS_INDEX: "# Skills\n\n## core\n\n- `core/files@0.1.0`: Files. Confidence: 1.0\n\n## learned\n",
        }
    )
    return desk


def of_mind(desk: Desk, path: str) -> str:
    return desk.git()("cat-file", "blob", f"refs/heads/mind:{path}") + "\n"


def used(desk: Desk, *runs: str, status: str = "completed") -> None:
    for run in runs:
        event(desk, "task_update", run, EventMetadata(status=status))


def event(desk: Desk, type: EventType, run: str, metadata: EventMetadata) -> None:
    root = f"{desk.home().places.bot}/mind"
    Path(root).mkdir(parents=True, exist_ok=True)
    about = EventContext(triggering_skill="candidates/csv-sum@0.1.0" if run else None)
    made = MindEvent("2026-01-31T10:00:00.000Z", type, about, Execution(), Outcomes(), metadata, run_id=run)
    EventWriter(root, lambda word, **facts: None).append(made)


def test_the_list_says_what_each_candidate_lacks(skilled: Desk) -> None:
    used(skilled, "r1")
    used(skilled, "r2", status="max_steps")
    found = skilled.done("skills", "--json").json
    core, candidate = found["skills"]
    assert (core["name"], core["status"], core["confidence"]) == ("files", "core", 1.0)
    assert (candidate["uses"], candidate["failures"]) == (2, 1)
    assert [lack.partition(":")[0] for lack in candidate["lacking"]] == [
        "self-test",
        "peer review",
        "regression check",
        "uses",
        "index",
        "with and without",
    ]
    text = skilled.done("skills").out
    assert "candidate  csv-sum 0.1.0    2 uses, 1 failure" in text
    assert "lacks self-test: the self-test has not been run yet" in text


def test_show_gives_the_gate_the_uses_and_the_text(skilled: Desk) -> None:
    used(skilled, "r1")
    shown = skilled.done("skills", "show", "csv-sum").out
    assert "met   failure modes" in shown
    assert "run r1 succeeded  logs/events/2026-01-31.jsonl:1" in shown
    assert "1. Run awk." in shown
    hash = folder_hash({"SKILL.md": TEXT.encode(), "sum.awk": b"{ s += $1 }\n"})
    for has, passed in ((False, False), (True, True)):
        facts = {"with_skill": has, "tokens": 100, "steps": 2}
        details = TrialDetails("candidates/csv-sum@0.1.0", hash, passed, facts=facts).plain()
        event(skilled, "skill_execution", "", EventMetadata(tool=COMPARISON, details=details))
    shown = skilled.done("skills", "show", "csv-sum").out
    assert "undecided before 3 trials of each: with the skill 1 of 1 done, 100 tokens and 2 steps" in shown
    assert "without it 0 of 1 done" in shown
    assert skilled.run("skills", "show", "nothing").code == 4


def test_the_pm_promotes_and_retires_by_commits(skilled: Desk) -> None:
    done = skilled.done("skills", "promote", "csv-sum", "--json").json
    assert (done["skill"], done["to"]) == ("candidates/csv-sum@0.1.0", "learned/csv-sum@0.1.0")
    text = of_mind(skilled, LEARNED)
    assert text == TEXT.replace("status: candidate", "status: learned")
    assert of_mind(skilled, "skills/learned/csv-sum/sum.awk") == "{ s += $1 }\n"
    (_, line) = lines_of(of_mind(skilled, SKILLS_INDEX))
    files = {"SKILL.md": text.encode(), "sum.awk": b"{ s += $1 }\n"}
    assert (line.directory, line.hash) == ("learned", folder_hash(files))
    assert skilled.run("skills", "promote", "csv-sum").code == 4, "there is no candidate of that name any more"

    skilled.done("skills", "retire", "csv-sum", "--successor", "learned/other@1.0.0")
    retired = of_mind(skilled, "skills/deprecated/csv-sum/SKILL.md")
    assert "status: deprecated" in retired
    assert "successor: learned/other@1.0.0" in retired
    assert [each.name for each in lines_of(of_mind(skilled, SKILLS_INDEX))] == ["files"]
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
    assert "is yours" in skilled.run("skills", "retire", "core/files").err
    assert skilled.run("skills", "retire", "csv-sum", "--successor", "x").code == 2
    assert skilled.run("skills", "show", "nowhere/csv-sum").code == 2
    skilled.puts_mind(
        {"skills/candidates/bad/SKILL.md": "<<<<<<< HEAD\n", "skills/candidates/big/SKILL.md": "x" * 300_000}
    )
    problems = skilled.done("skills", "--json").json["problems"]
    assert len(problems) == 2
    assert "bad/SKILL.md:1: a conflict marker" in problems[0]
    assert skilled.run("skills", "promote", "bad").code == 4


def test_an_agent_without_a_mind_has_no_skills(desk: Desk) -> None:
    desk.git()("update-ref", "-d", "refs/heads/mind")
    assert "minifram up" in desk.run("skills").err


def test_the_birth_index_and_core_skills_are_read() -> None:
    root = Path(__file__).parents[2] / "bot-template/mind"
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.glob("skills/*/*/SKILL.md")}
    skills = skills_of(files)
    assert len(skills.found) == len(files) > 0
    assert graph_problems(skills) == skills.problems == ()
    index = lines_of((root / "skills/index.md").read_text())
    assert {f"{each.directory}/{each.name}@{each.version}" for each in index} == {
        skill.reference for skill in skills.found
    }
