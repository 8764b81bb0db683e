from __future__ import annotations

from typing import Any

from infra.cell.mind.skill_gate import Gate, gate, is_to_be_disabled
from infra.cell.mind.skill_index import IndexLine, with_line
from infra.cell.mind.skill_record import (
    COMPARISON,
    DRAFTED,
    REGRESSION,
    REVIEW,
    SELF_TEST,
    DraftDetails,
    SkillRecords,
    TrialDetails,
    records_of,
)
from infra.cell.mind.skill_tally import TrialRun
from infra.cell.mind.skills import Skill, skill_of
from infra.cell.mind.thresholds import Thresholds
from infra.shared.mind.event import EventContext, EventLine, EventMetadata, EventType, Execution, MindEvent, Outcomes
from tests.cell.mind.test_skills import PATH, SKILL, a_skill, named

REFERENCE, HASH = "candidates/csv-sum@0.1.0", "sha256:0a"
SETTINGS = Thresholds()
DONE, DEAR, GAVE_UP = TrialRun(True, 100, 2), TrialRun(True, 900, 2), TrialRun(False, 10, 1)
CORE = (a_skill("core/files@1.0.0"), a_skill("core/shell@2.1.0"))


class Log:
    """Events in their order."""

    def __init__(self) -> None:
        self.lines: list[EventLine] = []

    def add(
        self, type: EventType, run: str = "", skill: str | None = None, label: str = "task", **metadata: Any
    ) -> Log:
        seq = len(self.lines) + 1
        event = MindEvent(
            type,
            EventContext(triggering_skill=skill),
            Execution(),
            Outcomes(),
            EventMetadata(label=label, **metadata),
            run_id=run,
            timestamp=f"2026-01-31T10:{seq % 60:02}:00.000Z",
            seq=seq,
        )
        self.lines.append(EventLine("2026-01-31.jsonl", seq, event))
        return self

    def trial(self, kind: str, passed: bool = True, hash: str = HASH) -> Log:
        details = TrialDetails(REFERENCE, hash, passed).plain()
        return self.add("skill_execution", tool=kind, details=details, label="maintenance")

    def held_out(self, with_skill: bool, *runs: TrialRun) -> Log:
        for run in runs:
            facts = {"with_skill": with_skill, "tokens": run.tokens, "steps": run.steps}
            details = TrialDetails(REFERENCE, HASH, run.passed, facts=facts).plain()
            self.add("skill_execution", tool=COMPARISON, details=details, label="exploration/skills")
        return self

    def tried(self, helps: bool = True) -> Log:
        for kind in (SELF_TEST, REGRESSION, REVIEW):
            self.trial(kind)
        return self.held_out(True, *[DONE._replace(passed=helps)] * 3).held_out(False, *[DEAR] * 3)

    def used(self, run: str, status: str = "completed", skill: str = REFERENCE, **more: Any) -> Log:
        self.add("skill_execution", run, skill, **more)
        self.add("skill_execution", run, skill, **more)
        return self.add("task_update", run, status=status, **more)

    @property
    def records(self) -> SkillRecords:
        return records_of(self.lines)


def the_skill(text: str = SKILL) -> Skill:
    return skill_of(PATH, text.encode())


def judged(chain: Log, text: str = SKILL, hash: str = HASH, explores: bool = True, index: str | None = None) -> Gate:
    skill = the_skill(text)
    skills = named({PATH: text.encode()}, *CORE)
    index = with_line("", IndexLine.of(skill, 0.8)) if index is None else index
    return gate(skill, hash, chain.records.of(skill.reference), index, skills, SETTINGS, explores)


def lacking(found: Gate) -> list[str]:
    return [condition.name for condition in found.lacking]


def test_a_skill_with_all_seven_passes_and_each_condition_names_its_events() -> None:
    found = judged(Log().tried().used("r1").used("r2").used("r3"))
    assert found.passed
    assert [condition.name for condition in found.conditions] == [
        "self-test",
        "peer review",
        "regression check",
        "failure modes",
        "uses",
        "index",
        "with and without",
    ]
    assert found.conditions[0].evidence == ("logs/events/2026-01-31.jsonl:1",)
    assert found.conditions[4].evidence == tuple(f"logs/events/2026-01-31.jsonl:{line}" for line in (10, 13, 16))
    assert found.conditions[6].evidence == tuple(f"logs/events/2026-01-31.jsonl:{line}" for line in range(4, 10))
    assert found.conditions[6].why == (
        "it helps: with the skill 3 of 3 done, 100 tokens and 2 steps in the median; "
        "without it 3 of 3 done, 900 tokens and 2 steps in the median"
    )


def test_each_condition_alone_keeps_it_out() -> None:
    def used(chain: Log, runs: int = 3) -> Log:
        for run in range(runs):
            chain.used(f"r{run}")
        return chain

    whole = used(Log().tried())
    for kind, name in ((SELF_TEST, "self-test"), (REGRESSION, "regression check"), (REVIEW, "peer review")):
        failed = used(Log().tried().trial(kind, passed=False))
        assert lacking(judged(failed)) == [name]
    assert lacking(judged(used(Log().tried(helps=False)))) == ["with and without"]
    assert lacking(judged(used(Log().tried(), 2))) == ["uses"]
    assert lacking(judged(whole, SKILL.replace("- No file: say so.", "- ..."))) == ["failure modes"]
    assert lacking(judged(whole, index="")) == ["index"]
    assert lacking(judged(whole, SKILL.replace("core/files@1.0.0", "core/files@2.0.0"))) == ["regression check"]


def test_what_is_no_use_is_not_counted() -> None:
    """One run counts once; a run that failed, explores, goes on or was cut short does not; nor one of another
    version, nor one before this content was tried."""
    chain = Log().used("before").tried().used("r1").used("r1").used("r2", "max_steps").used("r3", "interrupted")
    chain.used("r4", label="exploration/skills").used("r5", skill="candidates/csv-sum@0.0.9").used("r6", skill="x")
    chain.add("skill_execution", "r7", REFERENCE)
    (uses,) = [each for each in judged(chain).conditions if each.name == "uses"]
    assert uses.why.startswith("1 of 3 runs")


def test_a_change_of_the_folder_starts_anew() -> None:
    chain = Log().tried().used("r1").used("r2").used("r3")
    assert lacking(judged(chain, hash="sha256:0b")) == [
        "self-test",
        "peer review",
        "regression check",
        "uses",
        "with and without",
    ]


def test_what_a_page_had_a_hand_in_waits_for_the_pm() -> None:
    """Also in a later version, which work without the web wrote."""
    chain = Log().add("note", tool=DRAFTED, details=DraftDetails("csv-sum", "sha256:01", ("evil.example",)).plain())
    chain.add("note", tool=DRAFTED, details=DraftDetails("csv-sum", HASH).plain())
    found = judged(chain.tried().used("r1").used("r2").used("r3"))
    assert lacking(found) == ["peer review"]
    assert "evil.example" in found.lacking[0].why


def test_without_a_budget_for_exploration_it_waits() -> None:
    found = judged(Log(), explores=False)
    assert "exploration.usd is not set" in found.lacking[-1].why


def test_more_failures_than_allowed_disable_it() -> None:
    chain = Log().tried().used("r1", "max_steps").used("r2", "max_failures").used("r3", "refusal")
    chain.used("s", "model_unavailable")
    assert is_to_be_disabled(the_skill(), chain.records.of(REFERENCE), SETTINGS) == ""
    why = is_to_be_disabled(the_skill(), chain.used("r4", "no_op_loop").records.of(REFERENCE), SETTINGS)
    assert why.startswith("it failed 4 times, more than 3: run r1 (logs/events/")
    for run in range(20):
        chain.used(f"good{run}")
    assert is_to_be_disabled(the_skill(), chain.records.of(REFERENCE), SETTINGS) == "", "they are long past"


def test_self_tests_that_fail_count_as_failures() -> None:
    chain = Log()
    for hash in "abcd":
        chain.trial("skill_self_test", False, hash)
    assert "it failed 4 times" in is_to_be_disabled(the_skill(), chain.records.of(REFERENCE), SETTINGS)


def test_trials_that_are_left_are_waited_for_and_what_is_no_trial_is_none() -> None:
    """The gate shows what was seen so far."""
    chain = Log().held_out(False, GAVE_UP).held_out(True, DONE)
    chain.trial(COMPARISON)  # of a version before, that made one of each in one event
    compared = judged(chain).conditions[-1]
    assert not compared.met
    assert compared.why.startswith("undecided before 3 trials of each: with the skill 1 of 1 done, 100 tokens")
    assert compared.why.endswith("without it 0 of 1 done")


def test_broken_events_are_passed_over() -> None:
    chain = Log().add("skill_execution", tool="skill_review", details={"skill": 7})
    chain.lines.append(EventLine("2026-01-31.jsonl", 9, None))
    assert chain.records.by_reference == {}
