"""The fields of a section: `Name: value` lines, each with the lines below it up to the next one. Those that are changed
are written anew; all others, and those of other names, stay byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from infra.shared.text import one_line

_FIELD = re.compile(r"([A-Z][A-Za-z_]{0,39}):(?:[ \t]+(.*))?")
_BULLET = re.compile(r"[ \t]*[-*][ \t]+(.*)")
_DEEP = "    "
"""Before further lines of a text: at this depth none can open a fenced block."""
NONE = "None"


class SectionField(NamedTuple):
    name: str
    text: str
    """All of it, the blank lines behind it not included."""
    gap: str
    """Those."""
    line: int
    """In the section, from 0: that of the heading."""

    @property
    def _lines(self) -> list[str]:
        first, *others = self.text.split("\n")
        return [first.partition(":")[2], *others]

    @property
    def words(self) -> str:
        """The value as one line."""
        return " ".join(" ".join(self._lines).split())

    @property
    def prose(self) -> str:
        """The value with its lines."""
        first, *others = self._lines
        lines = (first.strip(), *(line.removeprefix(_DEEP).rstrip() for line in others))
        return "\n".join(lines).strip()

    def entries(self) -> list[str]:
        """What stands behind each bullet, with the lines below it; the one word None is none."""
        found: list[list[str]] = []
        for line in self._lines:
            bullet = _BULLET.fullmatch(line)
            if bullet or not found:
                found.append([bullet[1] if bullet else line])
            else:
                found[-1].append(line)
        entries = ("\n".join(lines).strip() for lines in found)
        return [entry for entry in entries if entry and entry.casefold() != NONE.casefold()]


class SectionFields(NamedTuple):
    head: str
    """The heading, and what stands before the first field."""
    fields: tuple[SectionField, ...]

    def whole(self) -> str:
        return self.head + "".join(field.text + field.gap for field in self.fields)

    def named(self, name: str) -> SectionField | None:
        return next((field for field in self.fields if field.name == name), None)

    def twice(self) -> list[SectionField]:
        """Those of a name that came before."""
        names = [field.name for field in self.fields]
        return [field for at, field in enumerate(self.fields) if field.name in names[:at]]


def fields_of(section: str) -> SectionFields:
    """Of a section with its heading."""
    head, parts = list[str](), list[tuple[str, int, list[str]]]()
    for at, line in enumerate(_lines(section)):
        found = _FIELD.fullmatch(line.rstrip("\r\n")) if at else None
        if found:
            parts.append((found[1], at, [line]))
        else:
            (parts[-1][2] if parts else head).append(line)
    return SectionFields("".join(head), tuple(_field(*part) for part in parts))


def _lines(text: str) -> list[str]:
    """With their ends; `str.splitlines` knows more ends than `sections` does."""
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else [])]


def _field(name: str, at: int, lines: list[str]) -> SectionField:
    end = len(lines)
    while end > 1 and not lines[end - 1].strip():
        end -= 1
    return SectionField(name, "".join(lines[:end]), "".join(lines[end:]), at)


def line_field(name: str, value: str) -> str:
    return f"{name}: {one_line(value)}".rstrip() + "\n"


def prose_field(name: str, value: str) -> str:
    first, *others = (line.rstrip() for line in value.strip().split("\n"))
    return f"{name}: {first}".rstrip() + "\n" + "".join(f"{_DEEP}{line}".rstrip() + "\n" for line in others)


def list_field(name: str, entries: Iterable[Mapping[str, str] | str]) -> str:
    """A bullet for each: a word, or names with values."""
    lines = [f"{name}:"]
    for entry in entries:
        pairs = [entry] if isinstance(entry, str) else [f"{key}: {one_line(value)}" for key, value in entry.items()]
        lines += [f"  - {pairs[0]}".rstrip(), *(f"    {pair}".rstrip() for pair in pairs[1:])]
    return "\n".join(lines if len(lines) > 1 else [*lines, f"  - {NONE}"]) + "\n"


def pairs_of(entry: str) -> dict[str, str]:
    """Names and values of an entry. Raises ValueError for a line without a name, and for a name that comes twice."""
    pairs = dict[str, str]()
    for line in filter(None, map(str.strip, entry.split("\n"))):
        name, colon, value = line.partition(":")
        if not colon or not name.isidentifier() or name in pairs or (value and not value[0].isspace()):
            raise ValueError(f"{line[:60]!r} is no `Name: value` of its own")
        pairs[name] = one_line(value)
    return pairs


def with_fields(section: str, before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The section with the fields whose text in `after` is another than in `before`: written anew, put in behind the
    one that they follow in `after`, or taken out where it is empty there."""
    fields = list(fields_of(section).fields)
    previous = -1
    for name, text in after.items():
        at = next((at for at, field in enumerate(fields) if field.name == name), None)
        if text != before.get(name, ""):
            if at is not None:
                fields[at] = fields[at]._replace(text=text)
            elif text:
                gap = fields[previous].gap if previous >= 0 else ""
                if previous >= 0:
                    before_it = fields[previous]
                    text_before = before_it.text if before_it.text.endswith("\n") else f"{before_it.text}\n"
                    fields[previous] = before_it._replace(text=text_before, gap="")
                at = previous + 1
                fields.insert(at, SectionField(name, text, gap, 0))
        previous = at if at is not None else previous
    head = fields_of(section).head
    return SectionFields(head if head.endswith("\n") else f"{head}\n", tuple(fields)).whole()
