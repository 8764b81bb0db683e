"""A skill's whole way: drafted, tried, promoted, changed, disabled, deprecated; by real commands, with canned words of
a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from infra.cell.doors import ModelFailure
from infra.cell.loop.actions import ToolCall
from infra.cell.loop.bash_tool import bash_tool
from infra.cell.loop.file_tools import file_tools
from infra.cell.loop.interruption import Interruption
from infra.cell.loop.toolbox import Toolbox
from infra.cell.mind import acts
from infra.cell.mind.clone import publish
from infra.cell.mind.maintain import DUTY_SECONDS
from infra.cell.mind.mind import UNKNOWN_ORIGIN, MindContext
from infra.cell.mind.skill_care import COMPARES_SECONDS, SkillCare
from infra.cell.mind.skill_index import IndexLine, lines_of, with_line
from infra.cell.mind.skill_log import SkillLog
from infra.cell.mind.skill_record import SkillRecords
from infra.cell.mind.skill_scan import UNUSED, SkillScan
from infra.cell.mind.skill_trials import (
    CHECK_SECONDS,
    MOST_OTHERS,
    OTHERS_SECONDS,
    SELF_TEST_SECONDS,
    TASK_SECONDS,
    verdict_of,
)
from infra.cell.mind.skills import folder_hash, skill_of
from infra.shared.clock import moment
from infra.shared.conversation import Completion, Request, Usage
from infra.shared.mind.event import Command, EventContext, EventMetadata, Execution, MindEvent
from infra.shared.mind.layout import FAILURES, SKILLS_INDEX
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from tests.cell.loop.replies import Canned, Reply, bash, calls, says
from tests.cell.mind.one_mind import OneMind
from tests.cell.mind.test_skills import PATH, SKILL
from tests.shared.rows import each_row

NOW = moment("2026-01-31T10:00:00")
DAY = 86_400.0
ANSWER = json.dumps({"verdict": "approve", "reasons": ["small and clear"]})
TEXT = SKILL.replace("dependencies:\n  - core/files@1.0.0\n", "").replace(
    "- core/files@1.0.0\n- `core/shell@2.1.0`\n- nothing else\n", "- None\n"
)
LEARNED = "skills/learned/csv-sum/SKILL.md"


class Skilled:
    """A mind with a main checkout, and a model of canned replies."""

    def __init__(self, root: str) -> None:
        self.mind = OneMind(root, NOW)
        self.model = Canned(())
        self.origins: tuple[str, ...] = ()
        self.mind.write("boot/identity.md", "I am an agent.\n")
        self.mind.write("boot/invariants.md", "Log everything.\n")
        self.mind.write("boot/operating_principles.md", "Be plain.\n")
        self.mind.write(SKILLS_INDEX, "# Skills\n\n## core\n\n## learned\n")
        main = Git(root, AGENT)
        main("init", "--quiet", "--template=", "--initial-branch=main", self.mind.places.main_checkout)
        main = Git(self.mind.places.main_checkout, AGENT)
        with open(f"{main.directory}/data.csv", "w") as file:
            file.write("1\n2\n3\n")
        main("add", "--all")
        main("commit", "--quiet", "--message", "main")
        self.mind.pm_pushes()

    def context(self, usd: float | None = 1.0) -> MindContext:
        context = self.mind.context(exploration_usd=usd)
        return context._replace(ask=self.model, origins=lambda: self.origins, toolbox_in=_toolbox)

    def care(self, usd: float | None = 1.0) -> SkillCare:
        return SkillCare(self.context(usd))

    def scan(self, week: str) -> str:
        return SkillScan(self.context()).scan(week)

    def save(self) -> None:
        publish(self.mind.context(), "saved", "saved")

    def records(self) -> SkillRecords:
        return SkillLog(self.context()).records()

    def says(self, *replies: Reply) -> None:
        self.model = Canned(replies)

    def runs(self, *names: str, status: str = "completed", skill: str = "candidates/csv-sum@0.1.0") -> None:
        """Runs that used the skill, each with its end."""
        for name in names:
            self.event("skill_execution", name, skill)
            self.event("task_update", name, skill, status=status)
            self.care().after_run(name)
        self.save()

    def event(
        self,
        type: Any,
        run: str,
        skill: str,
        execution: Execution | None = None,
        **metadata: Any,
    ) -> None:
        about, facts = EventContext(triggering_skill=skill), EventMetadata(**metadata)
        event = MindEvent(type, about, execution or Execution(), metadata=facts, run_id=run)
        self.mind.context().record([msgspec.to_builtins(event)])

    def index(self) -> dict[str, float]:
        lines = lines_of(self.mind.read(SKILLS_INDEX))
        return {f"{line.directory}/{line.name}@{line.version}": line.confidence for line in lines}

    def has(self, path: str) -> bool:
        return (Path(self.mind.root) / path).exists()


def _toolbox(directory: str) -> Toolbox:
    return Toolbox((*file_tools(directory, 10_000), bash_tool(directory, 20, 10_000, Interruption())))


@pytest.fixture
def skilled(tmp_path: Path) -> Skilled:
    return Skilled(str(tmp_path))


def without_skill(request: Request) -> Completion:
    """The model that was not told how gives up."""
    assert "Sum a column" not in request.system[0]
    return says("I do not know how.")


def with_skill(request: Request) -> Completion:
    assert "Sum a column" in request.system[0]
    assert "Write the sum of data.csv" in str(request.messages)
    return calls(bash("awk '{ s += $1 } END { print s }' data.csv > sum.txt"))


DID = (with_skill, says("Done."))
COMPARED = (without_skill, *DID) * 2
"""The rest of three each can change nothing."""


def a_used_draft(skilled: Skilled) -> None:
    """It was tried and reviewed, and three runs use it: what it lacks is the comparison."""
    skilled.mind.write(PATH, TEXT)
    skilled.care().after_run("draft")
    skilled.says(says(ANSWER))
    skilled.care().review()
    skilled.runs("r1", "r2", "r3")


def a_promoted(skilled: Skilled) -> None:
    """Three runs use the draft, then the gate lets it through."""
    a_used_draft(skilled)
    skilled.says(*COMPARED)
    skilled.care().review()
    skilled.save()
    assert skilled.has(LEARNED), skilled.mind.log


def test_a_draft_is_tried_used_compared_and_promoted(skilled: Skilled) -> None:
    skilled.mind.write(PATH, TEXT)
    skilled.care().after_run("draft")
    assert skilled.index() == {"candidates/csv-sum@0.1.0": 0.5}
    assert "not through its gate yet" in skilled.mind.read(SKILLS_INDEX), "its own words stand before no run"

    skilled.says(says(ANSWER))
    assert skilled.care().review() == "candidates/csv-sum@0.1.0 lacks uses, with and without"
    (asked,) = skilled.model.requests
    assert "Log everything." in str(asked.messages)
    assert "Run awk." in str(asked.messages)
    assert skilled.care().review() == "candidates/csv-sum@0.1.0 lacks uses, with and without", "nothing is tried twice"

    skilled.runs("r1", "r2", "r3")
    skilled.says(*COMPARED)
    assert skilled.care().review() == "promoted candidates/csv-sum@0.1.0"
    assert skilled.mind.read(LEARNED) == TEXT.replace("status: candidate", "status: learned")
    assert not skilled.has(PATH)
    assert skilled.index() == {"learned/csv-sum@0.1.0": 0.8}
    tried = [(facts["trial"], facts["passed"]) for facts in skilled.mind.notes("mind.skill_tried")]
    assert tried[:3] == [(name, True) for name in ("skill_self_test", "skill_regression", "skill_review")]
    assert tried[3:] == [("skill_comparison", passed) for passed in (False, True, False, True)], "no more can matter"
    assert not skilled.has("scratch/trials/csv-sum-with")


def test_a_skill_that_does_not_help_is_not_promoted(skilled: Skilled) -> None:
    a_used_draft(skilled)
    costs = Usage(input_tokens=100)
    task = "awk '{ s += $1 } END { print s }' data.csv > sum.txt"
    dear = calls(bash(task))._replace(usage=Usage(input_tokens=900))
    skilled.says(*[calls(bash(task))._replace(usage=costs), says("Done."), dear, says("Done.")] * 3)
    assert skilled.care().review() == "candidates/csv-sum@0.1.0 lacks with and without"
    assert len(skilled.model.requests) == 10, "a cheaper third trial with it would not change that"
    skilled.says()
    assert skilled.care().review() == "candidates/csv-sum@0.1.0 lacks with and without", "it is settled"


def test_trials_that_the_budget_does_not_allow_wait_and_none_is_made_twice(skilled: Skilled) -> None:
    """Nor those that a review has no time for: the next one goes on where it was left."""
    a_used_draft(skilled)

    def used_up(request: Request) -> Completion:
        raise ModelFailure("exploration_exhausted", "of this day")

    def made() -> list[object]:
        trials = skilled.records().of("candidates/csv-sum@0.1.0").trials
        return [each.facts["with_skill"] for each in trials if each.kind == "skill_comparison"]

    skilled.says(without_skill, used_up)
    assert skilled.care().review() == "candidates/csv-sum@0.1.0 lacks with and without"
    assert made() == [False]
    skilled.says(*DID, without_skill, used_up)
    skilled.care().review()
    assert made() == [False, True, False]
    late = skilled.care()
    late.compares_until = 0.0
    skilled.says()
    late.review()
    assert "this review has taken its time" in skilled.mind.notes("mind.skill_trial_put_off")[-1]["why"]
    skilled.says(*DID)
    assert skilled.care().review() == "promoted candidates/csv-sum@0.1.0"


def test_what_changed_under_its_trials_is_not_promoted(skilled: Skilled) -> None:
    """Its commands run beside its files; what was tried is what the gate let through."""
    script = f"{skilled.mind.root}/{PATH.replace('SKILL.md', 'sum.awk')}"
    check = 'test "$(cat sum.txt)" = 6'
    skilled.mind.write(PATH, TEXT.replace(check, f"{check} && echo another > {script}"))
    skilled.care().after_run("draft")
    skilled.says(says(ANSWER))
    skilled.care().review()
    skilled.runs("r1", "r2", "r3")
    skilled.says(*COMPARED)
    assert skilled.care().review() == "candidates/csv-sum@0.1.0 was changed under its trials"
    assert not skilled.has(LEARNED)


def test_without_a_budget_for_exploration_no_model_is_called(skilled: Skilled) -> None:
    skilled.mind.write(PATH, TEXT)
    skilled.care(None).after_run("draft")
    skilled.says()
    assert "peer review" in skilled.care(None).review(), "it would be for nothing"
    skilled.runs("r1", "r2", "r3")
    assert skilled.care(None).review() == "candidates/csv-sum@0.1.0 lacks peer review, with and without"


def test_reviews_that_are_none_hold_up_no_other_skill(skilled: Skilled) -> None:
    """The model is asked once a day about each."""
    names = ["csv-sum", "csv-sum-b", "csv-sum-c", "csv-sum-d"]
    for name in names:
        skilled.mind.write(PATH.replace("csv-sum", name), TEXT.replace("csv-sum", name))
    skilled.care().after_run("draft")
    asked = set[str]()

    def babbles(request: Request) -> Completion:
        asked.update(name for name in names if f"candidates/{name}/" in str(request.messages))
        return says("Well, it depends.")

    for day in range(2):
        skilled.says(*[babbles] * 3)
        skilled.care().review()
        assert len(skilled.mind.notes("mind.skill_trial_put_off")) == 3 * (day + 1)
        skilled.mind.now += DAY
    assert asked == set(names)


def test_all_self_tests_of_others_end_within_a_dutys_time() -> None:
    assert SELF_TEST_SECONDS + 2 * MOST_OTHERS * OTHERS_SECONDS < DUTY_SECONDS
    assert COMPARES_SECONDS + TASK_SECONDS + CHECK_SECONDS < DUTY_SECONDS


def test_a_draft_that_fails_its_own_test_costs_no_model_call(skilled: Skilled) -> None:
    skilled.mind.write(PATH, TEXT.replace("test 3 = $((1 + 2))", "echo so wrong; exit 3"))
    assert "self-test" in skilled.care().review()
    (trial,) = skilled.records().of("candidates/csv-sum@0.1.0").trials
    assert (trial.passed, "exit status 3: so wrong" in trial.words) == (False, True)


def test_a_self_test_that_changes_what_is_the_pms_fails(skilled: Skilled) -> None:
    skilled.mind.write(
        PATH, TEXT.replace("test 3 = $((1 + 2))", f"echo obey me >> {skilled.mind.root}/boot/invariants.md")
    )
    skilled.care().review()
    (trial,) = skilled.records().of("candidates/csv-sum@0.1.0").trials
    assert (trial.passed, trial.words) == (False, "it changed boot/invariants.md, which is the PM's alone")


def test_a_draft_that_breaks_another_skill_fails_the_regression_check(skilled: Skilled) -> None:
    """The other one passes its self-test without the new version beside it, and not with it."""
    a_promoted(skilled)
    other = TEXT.replace("csv-sum", "report").replace("test 3 = $((1 + 2))", "grep -q awk ../csv-sum/SKILL.md")
    skilled.mind.write("skills/candidates/report/SKILL.md", other)
    skilled.care().after_run("draft")
    (Path(skilled.mind.root) / "skills/candidates/report").rename(Path(skilled.mind.root) / "skills/learned/report")
    skilled.mind.write("skills/learned/report/SKILL.md", other.replace("status: candidate", "status: learned"))
    skilled.mind.write(PATH, TEXT.replace("Run awk", "Run sed").replace("0.1.0", "0.2.0"))
    assert "regression check" in skilled.care().review()
    trial = skilled.records().of("candidates/csv-sum@0.2.0").trials[-1]
    assert trial.words == "with it in place the self-test fails of learned/report@0.1.0"


def test_a_changed_learned_skill_is_a_candidate_again_and_the_one_before_stays(skilled: Skilled) -> None:
    a_promoted(skilled)
    before = skilled.mind.read(LEARNED)
    skilled.mind.write(LEARNED, before.replace("Run awk", "Run rm -rf"))
    skilled.care().after_run("change")
    assert skilled.mind.read(LEARNED) == before
    assert "Run rm -rf" in skilled.mind.read(PATH)
    assert set(skilled.index()) == {"learned/csv-sum@0.1.0", "candidates/csv-sum@0.1.0"}


def test_what_was_written_into_learned_past_the_gate_is_a_candidate(skilled: Skilled) -> None:
    """Also when the index names its hash: what this run wrote there, and committed, does not count."""
    text = TEXT.replace("status: candidate", "status: learned")
    skilled.mind.write(LEARNED, text)
    line = IndexLine.of(skill_of(LEARNED, text.encode()), 1.0, folder_hash({"SKILL.md": text.encode()}))
    skilled.mind.write(SKILLS_INDEX, with_line(skilled.mind.read(SKILLS_INDEX), line))
    skilled.mind.git("add", "--all")
    skilled.mind.git("commit", "--quiet", "--message", "sly")
    skilled.care().after_run("sly")
    assert skilled.has(PATH)
    assert not skilled.has(LEARNED)


def test_a_learned_skill_that_the_pm_changed_stays(skilled: Skilled) -> None:
    a_promoted(skilled)
    changed = skilled.mind.read(LEARNED).replace("Run awk", "Run gawk")
    skilled.mind.write(LEARNED, changed)
    skilled.mind.pm_pushes()
    skilled.care().after_run("r9")
    assert skilled.mind.read(LEARNED) == changed
    skilled.save()
    skilled.care().after_run("r10")
    assert skilled.mind.read(LEARNED) == changed
    skilled.mind.write("skills/learned/csv-sum/more.sh", "rm -rf /\n")
    skilled.care().after_run("r11")
    assert not skilled.has("skills/learned/csv-sum/more.sh"), "the agent's addition to it is none of the PM's"
    assert skilled.mind.read(LEARNED) == changed


def test_what_a_page_had_a_hand_in_is_not_promoted(skilled: Skilled) -> None:
    skilled.mind.write(PATH, TEXT)
    skilled.origins = ("evil.example",)
    skilled.care().after_run("reader")
    skilled.origins = ()
    skilled.says(says(ANSWER))
    skilled.care().review()
    skilled.runs("r1", "r2", "r3")
    skilled.says()
    assert "peer review" in skilled.care().review()
    assert not skilled.has(LEARNED)


def test_a_skill_that_rots_is_disabled_and_told(skilled: Skilled) -> None:
    a_promoted(skilled)
    skilled.runs("f1", "f2", "f3", status="max_failures", skill="learned/csv-sum@0.1.0")
    assert skilled.has(LEARNED)
    skilled.runs("f4", status="no_op_loop", skill="learned/csv-sum@0.1.0")
    assert not skilled.has(LEARNED)
    assert "status: failed" in skilled.mind.read("skills/failed/csv-sum/SKILL.md")
    assert "it failed 4 times" in skilled.mind.read(FAILURES)
    assert skilled.index() == {}


def test_a_skill_that_nobody_uses_is_deprecated_after_so_many_reviews(skilled: Skilled) -> None:
    """A week without an event is no review: then nothing could be used."""
    a_promoted(skilled)
    assert skilled.scan("2026-W05") == "1 learned skills, 0 used", "as a candidate it was used"
    assert skilled.scan("2026-W06") == "1 learned skills, 0 used"
    assert json.loads(skilled.mind.read(UNUSED)) == {"learned/csv-sum@0.1.0": 1}
    skilled.mind.now = moment("2026-02-09T10:00:00")
    skilled.runs("used", skill="learned/csv-sum@0.1.0")
    assert skilled.scan("2026-W07") == "1 learned skills, 1 used"
    for week in (8, 9, 10, 11):
        assert skilled.has(LEARNED)
        skilled.mind.now += 7 * DAY
        skilled.runs(f"other{week}", skill="core/files@1.0.0")
        words = skilled.scan(f"2026-W{week:02}")
    assert words == "1 learned skills, 0 used, deprecated learned/csv-sum@0.1.0"
    assert "status: deprecated" in skilled.mind.read("skills/deprecated/csv-sum/SKILL.md")


def test_a_new_version_replaces_the_old_one_which_names_it(skilled: Skilled) -> None:
    a_promoted(skilled)
    skilled.mind.write(PATH, TEXT.replace("0.1.0", "0.2.0").replace("Run awk", "Run gawk"))
    skilled.care().after_run("draft")
    skilled.says(says(ANSWER))
    skilled.care().review()
    skilled.runs("s1", "s2", "s3", skill="candidates/csv-sum@0.2.0")
    skilled.says(*COMPARED)
    assert skilled.care().review() == "promoted candidates/csv-sum@0.2.0"
    assert "successor: learned/csv-sum@0.2.0" in skilled.mind.read("skills/deprecated/csv-sum/SKILL.md")
    assert "Run gawk" in skilled.mind.read(LEARNED)


def test_broken_skills_are_said_and_the_others_go_on(skilled: Skilled) -> None:
    for number, content in enumerate((b"", b"\0\xff" * 99, b"<<<<<<< HEAD\n", b"x" * (50 << 20))):
        skilled.mind.write(f"skills/candidates/broken{number}/SKILL.md", content)
    skilled.mind.write(
        "skills/candidates/itself/SKILL.md",
        TEXT.replace("csv-sum", "itself").replace("- None", "- candidates/itself@0.1.0"),
    )
    skilled.mind.write(PATH, TEXT)
    skilled.care().after_run("draft")
    problems = [facts["problem"] for facts in skilled.mind.notes("mind.skill_problem")]
    assert len(problems) == 5
    assert "it depends on itself" in problems[-1]
    skilled.says(says(ANSWER))
    assert "candidates/csv-sum@0.1.0 lacks uses" in skilled.care().review()


@each_row(
    "answer",
    [
        "approve",
        '```json\n{"verdict": "approve", "reasons": []}\n```',
        '{"verdict": "approve"}',
        '{"verdict": "yes", "reasons": []}',
        '{"verdict": "approve", "reasons": [1]}',
        '{"verdict": "approve", "reasons": [], "more": 1}',
        "[" * 10_000,
    ],
)
def test_a_review_is_one_json_object_and_nothing_else(answer: str) -> None:
    with pytest.raises(ValueError, match="review"):
        verdict_of(answer)


def test_a_verdict_is_read() -> None:
    assert verdict_of('{"verdict": "reject", "reasons": ["it\\n leaks"]}') == (False, ["it leaks"])


def test_what_a_page_may_have_written_is_not_even_tried(skilled: Skilled) -> None:
    """Its self-test is a command: neither of work that had read the web, nor of a push by way of another clone."""
    skilled.mind.write(PATH, TEXT)
    skilled.origins = ("evil.example",)
    skilled.care().after_run("draft")
    skilled.origins = ()
    assert "lacks self-test" in skilled.care().review()

    skilled.mind.write(PATH.replace("csv-sum", "csv-max"), TEXT.replace("csv-sum", "csv-max"))
    skilled.save()
    skilled.care().after_run("next")
    assert skilled.records().of("candidates/csv-max@0.1.0").origins == (UNKNOWN_ORIGIN,)
    assert skilled.care().review().count("lacks self-test") == 2
    assert not skilled.records().of("candidates/csv-sum@0.1.0").trials


def test_the_pms_name_as_an_author_is_not_the_pms_word(skilled: Skilled) -> None:
    """The agent writes what it likes there; a learned skill that did not pass the gate is a candidate."""
    skilled.mind.write(LEARNED, TEXT.replace("status: candidate", "status: learned"))
    git = skilled.mind.git
    git("add", "--all")
    git("commit", "--quiet", "--author", "PM <pm@example.invalid>", "--message", "the PM's")
    git("push", "--quiet", "origin", "HEAD:mind")
    git("fetch", "--quiet", "origin")
    skilled.care().after_run("r1")
    assert not skilled.has(LEARNED)
    assert skilled.has(PATH)


def test_a_procedure_that_runs_repeat_becomes_a_draft_once(skilled: Skilled) -> None:
    """The gate holds it: nobody has written a self-test for it."""
    for run in ("r1", "r2", "r3"):
        for command in ("make build", "make check", "cp out.tar /srv/out.tar"):
            execution = Execution((Command("bash", ("-c", command)),), (0,))
            skilled.event("skill_execution", run, "", execution, tool="bash", status="ok")
        skilled.event("task_update", run, "", status="completed")
    words = skilled.care().review()
    (name,) = [reference.removeprefix("candidates/") for reference in skilled.index()]
    assert words.startswith(f"drafted {name.partition('@')[0]}")
    assert "self-test" in words
    assert "make check" in skilled.mind.read(f"skills/candidates/{name.partition('@')[0]}/SKILL.md")
    assert "drafted" not in skilled.care().review()
    skilled.mind.write(f"skills/candidates/{name.partition('@')[0]}/SKILL.md", "nonsense")
    assert "drafted" not in skilled.care().review(), "what cannot be read is there all the same"


def test_reading_a_skill_is_what_the_recorder_takes_for_its_use(skilled: Skilled) -> None:
    skilled.mind.write(PATH, TEXT)
    call = ToolCall("", "read_file", {"path": f"{skilled.mind.root}/{PATH}"})
    assert acts.skill_of(call, _toolbox(skilled.mind.root).call(call)) == "candidates/csv-sum@0.1.0"
