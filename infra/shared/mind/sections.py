"""A Markdown file as its sections: what stands under each heading of the second level. Byte for byte: `whole` gives
back what `document_of` was given, whatever that was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_HEADING = re.compile(r"## +(\S[^\n]*?)[ \t\r]*")
_ID = re.compile(r"[A-Z]{1,12}-[0-9]{1,12}")
_FENCE = re.compile(r" {0,3}(```+|~~~+)")


class MindSection(NamedTuple):
    heading: str
    """Without `## `."""
    text: str
    """All of it, the line of the heading included."""

    @property
    def id(self) -> str:
        """`B-000123` of a heading that begins so, else the heading itself."""
        first = self.heading.split(maxsplit=1)[0] if self.heading else ""
        return first if _ID.fullmatch(first) else self.heading

    @property
    def body(self) -> str:
        """What stands below the heading."""
        return self.text.partition("\n")[2]


class Document(NamedTuple):
    head: str
    """What stands above the first section."""
    sections: tuple[MindSection, ...] = ()

    def whole(self) -> str:
        return self.head + "".join(section.text for section in self.sections)

    def find(self, id: str) -> MindSection | None:
        """The first with this id."""
        return next((section for section in self.sections if section.id == id), None)

    def with_section(self, section: MindSection) -> Document:
        """In the place of the first with its id, else at the end; all others stay as they are."""
        text = section.text if section.text.endswith("\n") else f"{section.text}\n"
        section = section._replace(text=text)
        for at, each in enumerate(self.sections):
            if each.id == section.id:
                return self._replace(sections=(*self.sections[:at], section, *self.sections[at + 1 :]))
        whole = self.whole()
        gap = "" if not whole or whole.endswith("\n\n") else "\n" if whole.endswith("\n") else "\n\n"
        return document_of(whole + gap + text)

    def without(self, id: str) -> Document:
        return self._replace(sections=tuple(section for section in self.sections if section.id != id))


def document_of(text: str) -> Document:
    """A heading inside a fenced block is none."""
    found = list(_headings(text))
    ends = [*(at for at, _ in found[1:]), len(text)]
    sections = (MindSection(heading, text[at:end]) for (at, heading), end in zip(found, ends, strict=False))
    return Document(text[: found[0][0]] if found else text, tuple(sections))


def _headings(text: str) -> Iterator[tuple[int, str]]:
    """Offset and words of each."""
    at, fence = 0, ""
    for line in text.split("\n"):
        fenced = _FENCE.match(line)
        if fence:
            if fenced and fenced[1].startswith(fence) and not line[fenced.end() :].strip():
                fence = ""
        elif fenced:
            fence = fenced[1]
        elif found := _HEADING.fullmatch(line):
            yield at, found[1]
        at += len(line) + 1
