"""`skills/index.md`: a line for each skill, which every run has before it. Lines are added, changed and taken out one
by one; all others stay as they are."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from infra.cell.mind.semver import NAME
from infra.cell.mind.skills import STATUS_OF, Skill, SkillStatus
from infra.shared.mind.sections import MindSection, document_of

MOST_BYTES: Final = 1 << 20
MOST_DESCRIPTION: Final = 300
"""Characters of a description that stand in the index."""
_LINE = re.compile(
    rf"[-*] `({'|'.join(STATUS_OF)})/({NAME})@([^`\s]+)`: (.*?)\s*Confidence: ([01](?:\.\d{{1,6}})?)"
    r"(?: \((sha256:[0-9a-f]+)\))?[ \t\r]*"
)
_UNPROVEN: Final = {
    SkillStatus.CANDIDATE: "not through its gate yet; what it says is in its file.",
    SkillStatus.FAILED: "it failed; what it says is in its file.",
}
"""Work that has read the web may write these: their own words do not stand before every run."""
_LISTED = re.compile(r"[-*] ")


class IndexLine(NamedTuple):
    directory: str
    name: str
    version: str
    confidence: float
    hash: str
    """Of the folder, as it was promoted; empty for what was never promoted."""
    description: str

    @classmethod
    def of(cls, skill: Skill, confidence: float, hash: str = "") -> IndexLine:
        words = _UNPROVEN.get(skill.status) or " ".join(skill.description.split())
        words = f"{words[: MOST_DESCRIPTION - 1]}…" if len(words) > MOST_DESCRIPTION else words
        confidence = round(min(1.0, max(0.0, confidence)), 2)
        return cls(skill.status.directory, skill.name, str(skill.version), confidence, hash, words)

    def __str__(self) -> str:
        hashed = f" ({self.hash})" if self.hash else ""
        return (
            f"- `{self.directory}/{self.name}@{self.version}`: {self.description} "
            f"Confidence: {self.confidence:.2f}{hashed}"
        )


def index_line(text: str) -> IndexLine | None:
    """None for a line that is not of a skill."""
    found = _LINE.fullmatch(text)
    if not found:
        return None
    return IndexLine(found[1], found[2], found[3], min(1.0, float(found[5])), found[6] or "", found[4])


def lines_of(text: str) -> tuple[IndexLine, ...]:
    return tuple(line for line in map(index_line, text.split("\n")) if line)


def with_line(text: str, line: IndexLine) -> str:
    """In the place of the one for the same state and name; else behind the last of the section of its state, which is
    made when it is missing."""
    lines = text.split("\n")
    for at, each in enumerate(lines):
        found = index_line(each)
        if found and (found.directory, found.name) == (line.directory, line.name):
            lines[at] = str(line)
            return "\n".join(lines)
    document = document_of(text)
    section = document.find(line.directory)
    if section is None:
        return document.with_section(MindSection(line.directory, f"## {line.directory}\n\n{line}\n")).whole()
    body = section.text.split("\n")
    last = max((at for at, each in enumerate(body) if at and each.strip()), default=0)
    gap = [] if _LISTED.match(body[last]) else [""]
    rest = body[last + 1 :] or [""]
    new = MindSection(section.heading, "\n".join([*body[: last + 1], *gap, str(line), *rest]))
    return document.with_section(new).whole()


def without_line(text: str, directory: str, name: str) -> str:
    lines = text.split("\n")
    return "\n".join(
        each for each in lines if not (found := index_line(each)) or (found.directory, found.name) != (directory, name)
    )
