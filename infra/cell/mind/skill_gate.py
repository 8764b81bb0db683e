"""Whether a candidate becomes a learned skill: seven conditions, each over evidence that the events hold. Pure.

The model writes no evidence: trials and uses are events of the dispatcher, and each is about one content of the
folder, by its hash."""

from __future__ import annotations

from typing import Final, NamedTuple

from infra.cell.mind.skill_graph import problems_of
from infra.cell.mind.skill_index import lines_of
from infra.cell.mind.skill_record import REGRESSION, REVIEW, SELF_TEST, SkillRecord
from infra.cell.mind.skill_tally import tally_of, verdict, words_of
from infra.cell.mind.skills import FAILURE_MODES, HELD_OUT, Skill, Skills, SkillStatus
from infra.cell.mind.skills import SELF_TEST as SELF_TEST_SECTION
from infra.cell.mind.thresholds import Thresholds

LEAST_FAILURE_MODES: Final = 10
"""Characters; less documents nothing."""


class GateCondition(NamedTuple):
    name: str
    met: bool
    why: str
    """What was seen, or what is lacking."""
    evidence: tuple[str, ...] = ()
    """Lines of events."""


class Gate(NamedTuple):
    conditions: tuple[GateCondition, ...]

    @property
    def passed(self) -> bool:
        return all(condition.met for condition in self.conditions)

    @property
    def lacking(self) -> tuple[GateCondition, ...]:
        return tuple(condition for condition in self.conditions if not condition.met)


def gate(
    skill: Skill, hash: str, record: SkillRecord, index: str, skills: Skills, settings: Thresholds, explores: bool
) -> Gate:
    """`hash`: of its folder; `index`: the text of `skills/index.md`; `explores`: whether there is a budget for
    trials with the model."""
    return Gate(
        (
            _trial("self-test", record, SELF_TEST, hash, _self_test_lacks(skill)),
            _reviewed(hash, record),
            _regression(skill, hash, record, skills),
            _failure_modes(skill),
            _uses(hash, record, settings),
            _indexed(skill, index),
            _compared(skill, hash, record, settings, explores),
        )
    )


def is_to_be_disabled(skill: Skill, record: SkillRecord, settings: Thresholds) -> str:
    """Why; empty when it may go on."""
    if skill.status not in (SkillStatus.CANDIDATE, SkillStatus.LEARNED):
        return ""
    failures, trials = record.failures, record.failed_trials
    if len(failures) + len(trials) <= settings.skill_failures:
        return ""
    runs = [f"run {use.run} ({use.place})" for use in failures] + [f"self-test ({trial.place})" for trial in trials]
    return f"it failed {len(runs)} times, more than {settings.skill_failures}: {', '.join(runs)}"


def _trial(name: str, record: SkillRecord, kind: str, hash: str, otherwise: str) -> GateCondition:
    last = record.last(kind, hash)
    if last is None:
        return GateCondition(name, False, otherwise)
    return GateCondition(name, last.passed, last.words or ("passed" if last.passed else "failed"), (last.place,))


def _reviewed(hash: str, record: SkillRecord) -> GateCondition:
    if record.origins:
        sites = ", ".join(record.origins[:3])
        why = f"work that had read the web ({sites}) wrote it: it needs the PM's word, 'minifram skills promote'"
        return GateCondition("peer review", False, why)
    return _trial("peer review", record, REVIEW, hash, "the model has not reviewed it yet")


def _self_test_lacks(skill: Skill) -> str:
    if not skill.command(SELF_TEST_SECTION):
        return f"'## {SELF_TEST_SECTION}' holds no fenced block with a command that ends with 0 when the skill works"
    return "the self-test has not been run yet"


def _comparison_lacks(skill: Skill, explores: bool) -> str:
    if not skill.command(HELD_OUT) or not skill.prose(HELD_OUT):
        return f"'## {HELD_OUT}' needs a task in words, and a fenced block with a command that checks it"
    if not explores:
        return "it waits: there is no budget for exploration (exploration.usd is not set)"
    return "the held-out task has not been tried yet"


def _compared(skill: Skill, hash: str, record: SkillRecord, settings: Thresholds, explores: bool) -> GateCondition:
    tally, trials = tally_of(record, hash), settings.skill_trials
    if not tally.with_skill and not tally.without:
        return GateCondition("with and without", False, _comparison_lacks(skill, explores))
    helps = verdict(tally, trials)
    found = {True: "it helps", False: "it does not help", None: f"undecided before {trials} trials of each"}[helps]
    return GateCondition("with and without", helps is True, f"{found}: {words_of(tally)}", tally.places)


def _regression(skill: Skill, hash: str, record: SkillRecord, skills: Skills) -> GateCondition:
    problems = problems_of(skill, skills)
    if problems:
        return GateCondition("regression check", False, "; ".join(map(str, problems[:3])))
    return _trial("regression check", record, REGRESSION, hash, "it has not been made yet")


def _failure_modes(skill: Skill) -> GateCondition:
    words = skill.section(FAILURE_MODES)
    met = len("".join(words.split()).strip("-.…*")) >= LEAST_FAILURE_MODES
    why = "documented" if met else f"'## {FAILURE_MODES}' says nothing; name what can go wrong and what to do then"
    return GateCondition("failure modes", met, why)


def _uses(hash: str, record: SkillRecord, settings: Thresholds) -> GateCondition:
    uses = record.since_tried(hash)
    words = f"{len(uses)} of {settings.skill_successes} runs used it and succeeded since it was tried as it is now"
    return GateCondition("uses", len(uses) >= settings.skill_successes, words, tuple(use.place for use in uses))


def _indexed(skill: Skill, index: str) -> GateCondition:
    for line in lines_of(index):
        if (line.directory, line.name) == (skill.status.directory, skill.name):
            if line.version == str(skill.version):
                return GateCondition("index", True, f"confidence {line.confidence:.2f}")
            return GateCondition("index", False, f"skills/index.md names version {line.version}")
    return GateCondition("index", False, "skills/index.md does not name it")
