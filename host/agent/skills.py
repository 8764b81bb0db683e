"""Each skill of an agent with its record: the branch mind says what it is, the events how it went."""

from __future__ import annotations

from typing import NamedTuple

from host.agent.events import noted_heads
from host.paths import AgentPaths
from host.repository.skills import hash_of, read_skills
from infra.shared.mind.event_log import logged
from infra.shared.mind.layout import SKILLS_INDEX
from infra.shared.mind.skill_gate import Gate, gate
from infra.shared.mind.skill_index import lines_of
from infra.shared.mind.skill_record import SkillRecord, SkillRecords, records_of
from infra.shared.mind.skills import Skill, Skills, SkillStatus
from infra.shared.mind.vouched import Vouched
from infra.shared.mind_settings import ExplorationSettings, MindSettings
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file
from infra.shared.safe_files import Below


class SkillShown(NamedTuple):
    name: str
    status: str
    version: str
    description: str
    confidence: float | None
    """As the index says."""
    uses: int
    failures: int
    """Of the last uses, and self-tests."""
    lacking: tuple[str, ...]
    """What a candidate's gate lacks: `uses: 1 of 3 …`."""
    successor: str


def read_records(home: AgentPaths) -> SkillRecords:
    """From the events in the agent's clone of the mind for which the keep vouches; from all where it has noted no
    head. Raises OSError."""
    mind, heads, vouched = Below(f"{home.places.bot}/mind"), noted_heads(home), Vouched()
    vouched.take(logged(mind) if heads else (), heads)
    return records_of(vouched.sifted(logged(mind)) if heads else logged(mind))


def gate_of(
    git: Git,
    commit: str,
    skill: Skill,
    skills: Skills,
    records: SkillRecords,
    mind: MindSettings,
    exploration: ExplorationSettings,
) -> Gate:
    """Raises CommandError, GitError."""
    index = read_file(git, commit, SKILLS_INDEX) or ""
    record = records.of(skill.reference)
    return gate(skill, hash_of(git, commit, skill), record, index, skills, mind, exploration.usd is not None)


def shown(
    git: Git, commit: str, records: SkillRecords, mind: MindSettings, exploration: ExplorationSettings
) -> tuple[list[SkillShown], Skills]:
    """In the order of states and names. Raises CommandError, GitError."""
    skills = read_skills(git, commit)
    index = lines_of(read_file(git, commit, SKILLS_INDEX) or "")
    confidence = {(line.directory, line.name): line.confidence for line in index}
    found = []
    for skill in sorted(skills.found, key=lambda each: (tuple(SkillStatus).index(each.status), each.name)):
        record: SkillRecord = records.of(skill.reference)
        lacking: tuple[str, ...] = ()
        if skill.status is SkillStatus.CANDIDATE:
            judged = gate_of(git, commit, skill, skills, records, mind, exploration)
            lacking = tuple(f"{condition.name}: {condition.why}" for condition in judged.lacking)
        found.append(
            SkillShown(
                skill.name,
                skill.status.value,
                str(skill.version),
                skill.description,
                confidence.get((skill.status.directory, skill.name)),
                len(record.uses),
                len(record.failures) + len(record.failed_trials),
                lacking,
                skill.successor,
            )
        )
    return found, skills
