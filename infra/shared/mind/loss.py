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


def losses(before: MindHoldings, after: MindHoldings, lost: Collection[str] = ()) -> list[MindLoss]:
    """Where more than a third goes; in `lost`, where anything goes. A skill in another folder is not gone."""
    found = list[MindLoss]()
    for path, noun, had, has in (
        (BELIEFS, "beliefs", before.beliefs, after.beliefs),
        (LONG_TERM, "items", before.items, after.items),
        (LEARNED, "learned skills", before.learned, after.skills),
    ):
        gone = len(had - has)
        if (len(had) >= LEAST and 3 * gone > len(had)) or (gone and path in lost):
            found.append(MindLoss(path, f"{gone} of {len(had)} {noun}"))
    return found


def _ids(text: str) -> frozenset[str]:
    """Of a heading with nothing below it, what it stood for is gone."""
    return frozenset(each.id for each in document_of(text).sections if _ID.fullmatch(each.id) and each.body.strip())
