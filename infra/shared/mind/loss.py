"""Whether a change of the mind wipes what it knows: the git door refuses such a push, and the runner puts the files
back before it comes to that. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from infra.shared.mind.layout import BELIEFS, CANDIDATES, DEPRECATED, FAILED, LEARNED, LONG_TERM
from infra.shared.mind.sections import document_of

LEAST: Final = 3
"""Of fewer than so many, any may go."""
AT_MOST: Final = "at most a third may go in a day"
"""In the door's words; the runner looks for them."""
PATHS: Final = (BELIEFS, LONG_TERM, LEARNED)
_ID = re.compile(r"[BL]-[0-9]{1,12}")


class MindHoldings(NamedTuple):
    """What a version of the mind knows."""

    beliefs: frozenset[str] = frozenset()
    """Ids."""
    items: frozenset[str] = frozenset()
    """Ids of long-term memory."""
    learned: frozenset[str] = frozenset()
    """Names of skills in `skills/learned`."""
    skills: frozenset[str] = frozenset()
    """Names of skills in any folder of the agent's."""

    def loses_in(self, after: MindHoldings) -> bool:
        """Something is gone then."""
        return not (self.beliefs <= after.beliefs and self.items <= after.items and self.skills <= after.skills)

    def without(self, gone: MindHoldings) -> MindHoldings:
        return MindHoldings(*(mine - theirs for mine, theirs in zip(self, gone, strict=True)))

    def shared_with(self, other: MindHoldings) -> MindHoldings:
        return MindHoldings(*(mine & theirs for mine, theirs in zip(self, other, strict=True)))


NOTHING: Final = MindHoldings()


class MindLoss(NamedTuple):
    path: str
    """The file or folder that holds less."""
    words: str
    """`7 of 9 beliefs`."""


def holdings(beliefs: str, long_term: str, paths: Iterable[str]) -> MindHoldings:
    """Of the texts of the two files and all paths below `skills/`. What a folder holds beside its SKILL.md is no
    skill."""
    learned, skills = set[str](), set[str]()
    for path in paths:
        for folder in (LEARNED, CANDIDATES, DEPRECATED, FAILED):
            name, _, file = path.removeprefix(f"{folder}/").partition("/")
            if file == "SKILL.md" and path.startswith(f"{folder}/"):
                skills.add(name)
                if folder == LEARNED:
                    learned.add(name)
    return MindHoldings(_ids(beliefs), _ids(long_term), frozenset(learned), frozenset(skills))


def losses(
    before: MindHoldings, after: MindHoldings, of_late: MindHoldings = NOTHING, lost: Collection[str] = ()
) -> list[MindLoss]:
    """Where something goes, and more than a third is gone then: of what was there `of_late`, as what was added since
    is no reason to let more of it go, or of that and of what was there before. In `lost`, where anything goes. A skill
    that moved to another folder is not gone."""
    found = list[MindLoss]()
    for path, noun, late, every, had, has in (
        (BELIEFS, "beliefs", of_late.beliefs, before.beliefs | of_late.beliefs, before.beliefs, after.beliefs),
        (LONG_TERM, "items", of_late.items, before.items | of_late.items, before.items, after.items),
        (LEARNED, "learned skills", of_late.learned, before.learned | of_late.learned, before.skills, after.skills),
    ):
        if not (every & had) - has:
            continue
        gone = [(len(ids - has), len(ids)) for ids in (late, every)]
        over = [each for each in gone if each[1] >= LEAST and 3 * each[0] > each[1]]
        if over or path in lost:
            number, of = (over or gone[1:])[0]
            found.append(MindLoss(path, f"{number} of {of} {noun}"))
    return found


def _ids(text: str) -> frozenset[str]:
    """Of a heading with nothing below it, what it stood for is gone."""
    return frozenset(each.id for each in document_of(text).sections if _ID.fullmatch(each.id) and each.body.strip())
