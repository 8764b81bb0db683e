"""A skill's way from one state to another: what becomes of its SKILL.md and of the index. Pure; the folder itself is
moved by whoever holds the files."""

from __future__ import annotations

from typing import NamedTuple

from infra.cell.mind.skill_index import IndexLine, with_line, without_line
from infra.cell.mind.skills import FILE, SKILLS, Skill, SkillStatus, skill_of, with_front

LISTED = (SkillStatus.CORE, SkillStatus.LEARNED, SkillStatus.CANDIDATE)
"""Skills of other states do not stand in the index."""


class SkillMove(NamedTuple):
    source: str
    """The folder."""
    target: str
    """The folder; what is there is replaced."""
    skill: Skill
    """As it is then."""
    listed: str
    """The text of `skills/index.md` then."""


def move_of(
    skill: Skill, to: SkillStatus, index: str, confidence: float = 0.5, hash: str = "", successor: str = ""
) -> SkillMove:
    """`hash`: of the folder, as the index has it. Raises WrongSkill when the front matter cannot take the change."""
    target = f"{SKILLS}/{to.directory}/{skill.name}"
    changes = {"status": to.value}
    if successor:
        changes["successor"] = successor
    text = with_front(skill.text, **changes)
    moved = skill_of(f"{target}/{FILE}", text.encode())
    index = without_line(index, skill.status.directory, skill.name)
    if to in LISTED:
        index = with_line(index, IndexLine.of(moved, confidence, hash))
    return SkillMove(skill.folder, target, moved, index)
