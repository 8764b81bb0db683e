"""The weekly scan of the skills: which the week used; what is unused for long is deprecated."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from infra.cell.mind.learn import days_of
from infra.cell.mind.mind import MindContext
from infra.cell.mind.skill_files import SkillFiles
from infra.cell.mind.skill_graph import found_by
from infra.cell.mind.skill_index import lines_of as index_lines
from infra.cell.mind.skill_index import with_line
from infra.cell.mind.skill_log import SkillLog
from infra.cell.mind.skill_moves import move_of
from infra.cell.mind.skill_record import SkillRecords
from infra.cell.mind.skills import Skill, Skills, SkillStatus
from infra.shared.mind.event import name_of
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import Below

UNUSED: Final = "logs/health/skills.json"
"""For how many weekly reviews each learned skill was not used; committed."""
_UNUSED_BYTES: Final = 1 << 20


class SkillScan:
    """Of one mind."""

    def __init__(self, context: MindContext) -> None:
        self._context = context
        self._root = context.places.mind
        self._files = SkillFiles(self._root)
        self._log = SkillLog(context)

    def scan(self, week: str) -> str:
        """Which learned skills the week used; what was unused for long is deprecated. Raises OSError."""
        skills, records = self._files.skills(), self._log.records()
        used = _used_in_week(skills, records, week)
        lines = self._week_has_events(week)
        counts, kept, deprecated = self._unused(), dict[str, int](), list[str]()
        index = self._files.index()
        for skill in skills.found:
            if skill.status is not SkillStatus.LEARNED:
                continue
            count = counts.get(skill.reference, 0)
            count = 0 if skill.reference in used else count + (1 if lines else 0)
            if count >= self._context.thresholds.unused_reviews:
                move = move_of(skill, SkillStatus.DEPRECATED, self._files.index())
                self._files.move(move)
                self._log.moved(skill, move.skill, "", f"unused for {count} weekly reviews")
                deprecated.append(skill.reference)
                continue
            kept[skill.reference] = count
            line = next((each for each in index_lines(index) if (each.directory, each.name) == _place(skill)), None)
            if line:
                better = line._replace(confidence=round(records.of(skill.reference).confidence, 2))
                if better != line and records.of(skill.reference).uses:
                    self._files.write_index(with_line(self._files.index(), better))
        path = f"{self._root}/{UNUSED}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        RedactedFile(path).replace(msgspec.json.format(msgspec.json.encode(kept, order="sorted"), indent=1) + b"\n")
        gone = f", deprecated {', '.join(deprecated)}" if deprecated else ""
        return f"{len(kept) + len(deprecated)} learned skills, {len(used)} used{gone}"

    def _unused(self) -> dict[str, int]:
        try:
            return msgspec.json.decode(Below(self._root).whole(UNUSED, _UNUSED_BYTES), type=dict[str, int])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            self._context.note("mind.skills_unused_unreadable", error=f"{UNUSED}: {error}; counting begins anew")
            return {}

    def _week_has_events(self, week: str) -> bool:
        return any(Below(self._context.places.events).status(name_of(day)) for day in days_of(week))


def _place(skill: Skill) -> tuple[str, str]:
    return (skill.status.directory, skill.name)


def _used_in_week(skills: Skills, records: SkillRecords, week: str) -> set[str]:
    """With those that a used one depends on."""
    days = set(days_of(week))
    waiting = [skill for skill in skills.found if any(use.at[:10] in days for use in records.of(skill.reference).uses)]
    used = set[str]()
    while waiting:
        skill = waiting.pop()
        if skill.reference not in used:
            used.add(skill.reference)
            waiting += [other for each in skill.dependencies if (other := found_by(each, skills))]
    return {skill.reference for skill in skills.found if skill.status is SkillStatus.LEARNED} & used
