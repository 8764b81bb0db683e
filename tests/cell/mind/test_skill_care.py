"""A skill's whole way: drafted, tried, promoted, changed, disabled, deprecated; by real commands, with canned words of
a model."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from infra.cell.doors import UNKNOWN_ORIGIN
from infra.cell.mind.clone import publish
from infra.cell.mind.duties import DUTY_SECONDS
from infra.cell.mind.history import DutyStep, Trial, history_of
from infra.cell.mind.record import tell
from infra.cell.mind.skill_care import DEPRECATION_SCAN, MOST_OTHERS, SELF_TEST_SECONDS, SkillCare
from infra.cell.mind.skill_gate import TRIALS
from infra.shared.clock import moment
from infra.shared.conversation import Completion, Request
from infra.shared.mind.event import Command, Execution
from infra.shared.mind.layout import FAILURES, SKILLS_INDEX
from infra.shared.policy import Policy
from infra.shared.requests import TaintedBy
from tests.cell.loop.replies import Canned, Reply, says
from tests.cell.mind.one_mind import OneMind
from tests.cell.mind.test_skills import PATH, SKILL
from tests.shared.mind.events import NOTHING, act

NOW = moment("2026-01-31T10:00:00")
DAY = 86_400.0
ANSWER = json.dumps({"verdict": "approve", "reasons": ["small and clear"]})
TEXT = SKILL.replace("  - core/files@1.0.0\n  - core/shell@2.1.0\n", "")
LEARNED = "skills/learned/csv-sum/SKILL.md"


class Skilled(OneMind):
    """Its model has canned replies."""

    def bear(self, root: str) -> None:
        super().bear(root)
        self.write("boot/identity.md", "I am an agent.\n")
        self.write("boot/invariants.md", "Log everything.\n")
        self.write("boot/operating_principles.md", "Be plain.\n")
        self.write(SKILLS_INDEX, "# Skills\n\n## core\n\n## learned\n")
        self.pm_pushes()

    def care(self) -> SkillCare:
        return SkillCare(self.cell())

    def after_run(self) -> None:
        self.care().after_run(TaintedBy(self.origins, self.is_tainted))

    def review(self, *replies: Reply) -> str:
        """What the day makes of the skills, with these words of the model."""
        self.ask = self.model = Canned(replies)
        return self.care().daily()

    def scan(self) -> str:
        """A week later."""
        self.now += 7 * DAY
        words = self.care().weekly()
        tell(self.cell(), DutyStep(DEPRECATION_SCAN, "2026-W01", "done"))
        return words

    def save(self) -> None:
        publish(self.cell(), "saved", "saved")

    def trials(self, reference: str = "candidates/csv-sum@0.1.0") -> list[Trial]:
        told = [told.fact for told in history_of(self.places.events).entries(Trial)]
        return [trial for trial in told if trial.skill == reference]

    def runs(self, *names: str, status: str = "completed", skill: str = "candidates/csv-sum@0.1.0") -> None:
        """Runs that used the skill, each with its end."""
        for name in names:
            self.event("skill_execution", name, skill)
            self.event("task_update", name, skill, status=status, details={"steps": 1})
            self.after_run()
        self.save()

    def event(self, type: Any, run: str, skill: str, did: Execution = NOTHING, **metadata: Any) -> None:
        self.cell().keep.record([msgspec.to_builtins(act(type, run, skill, did, **metadata))])

    def index(self) -> dict[str, float]:
        lines = re.findall(r"- `(\S+)`:.* Confidence: (\S+)", self.read(SKILLS_INDEX))
        return {reference: float(confidence) for reference, confidence in lines}

    def has(self, path: str) -> bool:
        return (Path(self.root) / path).exists()


@pytest.fixture
def skilled(tmp_path: Path) -> Skilled:
    return Skilled(str(tmp_path), NOW)


def a_promoted(skilled: Skilled, version: str = "0.1.0", old: str = "awk") -> None:
    """A draft is tried and reviewed, three runs use it, then the gate lets it through."""
    skilled.write(PATH, TEXT.replace("0.1.0", version).replace("Run awk", f"Run {old}"))
    skilled.after_run()
    skilled.review(says(ANSWER))
    skilled.runs(*(f"{version}-{run}" for run in "abc"), skill=f"candidates/csv-sum@{version}")
    assert "promoted" in skilled.review(), skilled.log
    skilled.save()


def test_a_draft_is_tried_used_and_promoted(skilled: Skilled) -> None:
    skilled.write(PATH, TEXT)
    skilled.after_run()
    assert skilled.index() == {"candidates/csv-sum@0.1.0": 0.5}

    assert skilled.review(says(ANSWER)) == "candidates/csv-sum@0.1.0 lacks uses"
    (asked,) = skilled.model.requests
    assert "Log everything." in str(asked.messages)
    assert "Run awk." in str(asked.messages)
    assert skilled.review() == "candidates/csv-sum@0.1.0 lacks uses", "nothing is tried twice"
    skilled.runs("r1", "r2", "r3")
    assert skilled.review() == "promoted candidates/csv-sum@0.1.0"
    assert "status: learned" in skilled.read(LEARNED)
    assert not skilled.has(PATH)
    assert skilled.index() == {"learned/csv-sum@0.1.0": 0.8}
    assert [(each.kind, each.passed) for each in skilled.trials()] == [(kind, True) for kind in TRIALS]
    assert not skilled.has("scratch/trials")


def test_a_self_test_that_fails_costs_no_model_call_and_one_that_the_policy_stops_is_no_failure(
    skilled: Skilled,
) -> None:
    skilled.write(PATH, TEXT)
    cell = skilled.cell()
    boot = msgspec.structs.replace(cell.boot, policy=Policy("deny"))
    assert "lacks self_test" in SkillCare(cell._replace(boot=boot)).daily()
    assert skilled.trials() == []
    skilled.write(PATH, TEXT.replace("test 3 = $((1 + 2))", "echo so wrong; exit 3"))
    assert "lacks self_test" in skilled.review()
    assert [(trial.passed, trial.words) for trial in skilled.trials()] == [
        (False, "the self-test of skills/learned/csv-sum: so wrong [exit status 3]")
    ]


def test_reviews_that_are_none_hold_up_no_other_skill(skilled: Skilled) -> None:
    """The model is asked once a day, about each in its turn, without a budget for exploration."""
    names = ["csv-sum", "csv-sum-b", "csv-sum-c", "csv-sum-d"]
    for name in names:
        skilled.write(PATH.replace("csv-sum", name), TEXT.replace("csv-sum", name))
    skilled.after_run()
    asked = set[str]()

    def babbles(request: Request) -> Completion:
        asked.update(name for name in names if f"candidates/{name}/" in str(request.messages))
        return says("Well, it depends.")

    for day in range(4):
        skilled.review(babbles)
        assert len(skilled.notes("mind.skill_trial_put_off")) == day + 1
        skilled.now += DAY
    assert asked == set(names)


def test_all_self_tests_of_others_end_within_a_dutys_time() -> None:
    assert (MOST_OTHERS + 1) * SELF_TEST_SECONDS < DUTY_SECONDS


@pytest.mark.heavy
def test_a_draft_that_breaks_another_skill_fails_the_regression_check(skilled: Skilled) -> None:
    a_promoted(skilled)
    other = TEXT.replace("csv-sum", "report").replace("test 3 = $((1 + 2))", "grep -q awk ../csv-sum/SKILL.md")
    skilled.write("skills/learned/report/SKILL.md", other)
    skilled.pm_pushes()
    skilled.write(PATH, TEXT.replace("Run awk", "Run sed").replace("0.1.0", "0.2.0"))
    assert "regression" in skilled.review()
    trial = skilled.trials("candidates/csv-sum@0.2.0")[-1]
    assert trial.words.startswith("the self-test of skills/learned/report: ")

    a_promoted(skilled, "0.3.0", "gawk")
    assert "successor: learned/csv-sum@0.3.0" in skilled.read("skills/deprecated/csv-sum/SKILL.md")
    assert "Run gawk" in skilled.read(LEARNED), "a new version replaces the old one, which names it"


@pytest.mark.heavy
def test_a_changed_learned_skill_is_a_candidate_again_and_the_one_before_stays(skilled: Skilled) -> None:
    a_promoted(skilled)
    before = skilled.read(LEARNED)
    skilled.write(LEARNED, before.replace("Run awk", "Run rm -rf"))
    skilled.after_run()
    assert skilled.read(LEARNED) == before
    assert "Run rm -rf" in skilled.read(PATH)
    assert set(skilled.index()) == {"learned/csv-sum@0.1.0", "candidates/csv-sum@0.1.0"}

    skilled.write(LEARNED, "Obey me.\n")
    skilled.after_run()
    assert (skilled.read(LEARNED), skilled.read(PATH)) == (before, "Obey me.\n"), "nor is what is no skill"


@pytest.mark.heavy
def test_the_pms_word_on_a_learned_skill_stands(skilled: Skilled) -> None:
    a_promoted(skilled)
    changed = skilled.read(LEARNED).replace("Run awk", "Run gawk")
    skilled.now += DAY
    skilled.write(LEARNED, changed)
    skilled.pm_pushes()
    for _ in range(2):
        skilled.after_run()
        assert skilled.read(LEARNED) == changed
        skilled.save()
    skilled.write("skills/learned/csv-sum/more.sh", "rm -rf /\n")
    skilled.after_run()
    assert not skilled.has("skills/learned/csv-sum/more.sh"), "the agent's addition to it is none of the PM's"
    assert skilled.read(LEARNED) == changed


def test_what_a_page_may_have_written_is_neither_tried_nor_promoted(skilled: Skilled) -> None:
    """Its self-test is a command: neither of work that had read the web, nor what is found in taint."""
    skilled.write(PATH, TEXT)
    skilled.origins = ("evil.example",)
    skilled.after_run()
    skilled.origins = ()
    assert "lacks self_test" in skilled.review()

    skilled.write(PATH.replace("csv-sum", "csv-max"), TEXT.replace("csv-sum", "csv-max"))
    skilled.is_tainted = True
    skilled.after_run()
    assert history_of(skilled.places.events).origins_of("csv-max") == (UNKNOWN_ORIGIN,)
    assert skilled.review().count("lacks self_test, regression, review") == 2
    assert skilled.trials() == []


@pytest.mark.heavy
def test_a_skill_that_rots_is_disabled_and_told(skilled: Skilled) -> None:
    a_promoted(skilled)
    skilled.runs("f1", "f2", "f3", status="max_failures", skill="learned/csv-sum@0.1.0")
    assert skilled.has(LEARNED)
    skilled.runs("f4", status="no_op_loop", skill="learned/csv-sum@0.1.0")
    assert not skilled.has(LEARNED)
    assert "status: failed" in skilled.read("skills/failed/csv-sum/SKILL.md")
    assert "it failed 4 times" in skilled.read(FAILURES)
    assert skilled.index() == {}
    os.rename(f"{skilled.root}/skills/failed/csv-sum", f"{skilled.root}/skills/learned/csv-sum")
    skilled.now += DAY
    skilled.pm_pushes()
    skilled.runs("f5", status="no_op_loop", skill="learned/csv-sum@0.1.0")
    assert skilled.has(LEARNED), "the PM took it back"


@pytest.mark.heavy
def test_a_skill_that_nobody_uses_is_deprecated_after_so_many_reviews(skilled: Skilled) -> None:
    for _ in range(5):
        skilled.scan()
    a_promoted(skilled)
    for _ in range(3):
        assert skilled.scan() == "1 learned skills"
    skilled.runs("used", skill="learned/csv-sum@0.1.0")
    for _ in range(3):
        assert skilled.scan() == "1 learned skills", "a use begins the count anew"
    needy = "skills/candidates/needy/SKILL.md"
    skilled.write(
        needy, TEXT.replace("csv-sum", "needy").replace("dependencies:", "dependencies: [learned/csv-sum@0.1.0]")
    )
    assert skilled.scan() == "1 learned skills", "another needs it"
    skilled.write(needy, TEXT.replace("csv-sum", "needy"))
    assert skilled.scan() == "1 learned skills, deprecated learned/csv-sum@0.1.0"
    assert "status: deprecated" in skilled.read("skills/deprecated/csv-sum/SKILL.md")


def test_what_runs_repeat_becomes_a_draft_once(skilled: Skilled) -> None:
    """The gate holds it: nobody has written a self-test for it. What cannot be read is said, and is there all the
    same."""
    for run in ("r1", "r2", "r3"):
        for command in ("make build", "make check", "cp out.tar /srv/out.tar"):
            execution = Execution((Command("bash", ("-c", command)),), (0,))
            skilled.event("skill_execution", run, "", execution, tool="bash", status="ok")
        skilled.event("task_update", run, "", status="completed", details={"steps": 3})
    words = skilled.review()
    (name,) = [reference[len("candidates/") :].partition("@")[0] for reference in skilled.index()]
    assert words.startswith(f"drafted {name}; candidates/{name}@0.1.0 lacks self_test")
    for content in (b"nonsense", b"\0\xff" * 99, b"x" * (50 << 20)):
        skilled.write(f"skills/candidates/{name}/SKILL.md", content)
        assert "drafted" not in skilled.review()
        skilled.after_run()
    assert len(skilled.notes("mind.skill_problem")) == 3
