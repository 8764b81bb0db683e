"""Which files of the mind are searched, and what each of their sections is to the index. Pure."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Final, NamedTuple

from infra.cell.mind.fields import fields_of
from infra.cell.mind.statements import normalised
from infra.shared.mind import layout
from infra.shared.mind.sections import MindSection, document_of

BELIEF, MEMORY, SUMMARY, TASK = "belief", "memory", "summary", "task"
SKILL, ARCHIVE, REFLECTION = "skill", "archive", "reflection"
KINDS: Final = (BELIEF, MEMORY, SUMMARY, TASK, SKILL, ARCHIVE, REFLECTION)
ACTIVE, CONTESTED, DEPRECATED = "active", "contested", "deprecated"

FOLDERS: Final = ("memory", layout.DAILY, layout.WEEKLY, layout.COMPLETED, "skills", "reflection")
"""All that is searched lies below these."""
MOST_BODY_CHARS = 20_000
"""Of a section, so much is searched and shown."""
_SINGLE: Final = {layout.BELIEFS: BELIEF, layout.LONG_TERM: MEMORY, layout.WORKING: MEMORY}
_BELOW: Final = {
    layout.ARCHIVE: ARCHIVE,
    layout.DAILY: SUMMARY,
    layout.WEEKLY: SUMMARY,
    layout.COMPLETED: TASK,
    "reflection": REFLECTION,
}
_FIELD = re.compile(r"(?m)^([A-Z][A-Za-z_]{0,39}):[ \t]*(.*)$")
_FRONT = re.compile(r"(?s)\A---[ \t]*\r?\n(.*?)\n---[ \t]*(?:\r?\n|\Z)")
_FRONT_FIELD = re.compile(r"(?m)^(name|description):[ \t]*(.*(?:\n[ \t]+\S.*)*)$")
_TITLE = re.compile(r"(?m)^# +(\S.*?)[ \t\r]*$")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_WEEK = re.compile(r"(\d{4})-W(\d{2})")
_ID = re.compile(r"[A-Z]{1,12}-[0-9]{1,12}")


class IndexRow(NamedTuple):
    """A section, as the index holds it."""

    id: str
    title: str
    """Of its file."""
    heading: str
    body: str
    kind: str
    date: str = ""
    """YYYY-MM-DD; empty for what has none."""
    status: str = ACTIVE
    against: str = ""
    """Ids that a contested belief contradicts, with spaces between."""
    subject: str = ""
    subject_key: str = ""
    """The subject as `statements.normalised` makes it; statements about one subject replace each other."""
    statement: str = ""
    validated: str = ""
    """A date, of statements."""


def kind_of(path: str) -> str:
    """Empty for a file that is not searched."""
    if not path.endswith(".md") or layout.is_below(path, (layout.HELD,)):
        return ""
    if path in _SINGLE:
        return _SINGLE[path]
    if fnmatch(path, "skills/*/*/SKILL.md"):
        return SKILL
    return next((kind for root, kind in _BELOW.items() if path.startswith(f"{root}/")), "")


def rows_of(path: str, text: str) -> Iterator[IndexRow]:
    """One for each section in order, and one for what stands above the first where that is more than a title."""
    kind = kind_of(path)
    if kind == SKILL:
        yield _skill(path, text)
        return
    document = document_of(text)
    found = _TITLE.search(document.head)
    title = found[1] if found else path.rpartition("/")[2].removesuffix(".md")
    date = _date_of(path, document.head)
    is_item = kind == BELIEF or path == layout.LONG_TERM
    above = (document.head[: found.start()] + document.head[found.end() :] if found else document.head).strip()
    if above and not is_item:
        yield IndexRow(title, title, title, above[:MOST_BODY_CHARS], kind, date)
    for section in document.sections:
        body = section.body.strip()[:MOST_BODY_CHARS]
        row = IndexRow(section.id, title, section.heading, body, kind, date)
        yield _item(row, section) if is_item else row


def _item(row: IndexRow, section: MindSection) -> IndexRow:
    """A belief, or an item of long-term memory: what it says, without where that comes from."""
    fields = fields_of(section.text)

    def words(name: str) -> str:
        field = fields.named(name)
        return field.words if field else ""

    statement = words("Claim") or words("Statement")
    if not statement:  # not in its form: found as the text that it is
        return row
    validated = _day(words("Last_validated"))
    status = words("Status").casefold()
    contradictions = fields.named("Contradictions")
    against = _ID.findall(contradictions.text) if status == CONTESTED and contradictions else []
    notes, confidence = fields.named("Notes"), words("Confidence")
    body = (statement, f"Confidence: {confidence}" if confidence else "", notes.prose if notes else "")
    subject = words("Subject") or row.heading.removeprefix(row.id).strip()
    return row._replace(
        body="\n".join(filter(None, body))[:MOST_BODY_CHARS],
        date=validated or _day(words("Added")),
        status=status if status in (CONTESTED, DEPRECATED) else ACTIVE,
        against=" ".join(dict.fromkeys(against)),
        subject=subject,
        subject_key=normalised(subject),
        statement=statement,
        validated=validated,
    )


def _skill(path: str, text: str) -> IndexRow:
    front = _FRONT.match(text)
    fields = dict(_FRONT_FIELD.findall(front[1])) if front else {}
    state, name = path.split("/")[1:3]
    name = fields.get("name", "").strip() or name
    description = " ".join(fields.get("description", "").split()).lstrip("|>- ")
    status = DEPRECATED if f"skills/{state}" in (layout.DEPRECATED, layout.FAILED) else ACTIVE
    return IndexRow(f"{state}/{name}", name, name, description[:MOST_BODY_CHARS], SKILL, "", status)


def _date_of(path: str, head: str) -> str:
    """What the file's name says, or its head (`Completed:`)."""
    name = path.rpartition("/")[2]
    if week := _WEEK.search(name):
        try:
            return datetime.date.fromisocalendar(int(week[1]), int(week[2]), 7).isoformat()
        except ValueError:
            return ""
    return _day(name) or _day(next((value for key, value in _FIELD.findall(head) if key == "Completed"), ""))


def _day(text: str) -> str:
    """The first day that is one."""
    for found in _DAY.findall(text):
        try:
            return datetime.date.fromisoformat(found).isoformat()
        except ValueError:
            continue
    return ""
