"""`memory/long_term.md`: a section for each item, `## L-000123 subject`. Reading and writing it is `LONG_TERM_FILE`'s;
see `items.ItemFile` for what its methods promise."""

from __future__ import annotations

import re
from collections.abc import Mapping

from infra.cell.mind import items
from infra.cell.mind.claims import BeliefStatus, Evidence, MemoryItem, Origin
from infra.cell.mind.fields import SectionField, SectionFields, line_field, list_field, pairs_of
from infra.cell.mind.items import ItemFile, ItemRead, WrongItem
from infra.shared.mind import layout
from infra.shared.mind.sections import MindSection
from infra.shared.text import one_line

PREFIX = "L"
_ID = re.compile(r"[BL]-[0-9]{1,12}")
_KEYS = ("Source", "Run", "Step", "Origin")


def _read(section: MindSection, fields: SectionFields, today: str) -> ItemRead[MemoryItem]:
    names = ("Statement", "Added", "Last_validated", "Status")
    statement, added, validated, status = (fields.named(name) for name in names)
    if statement is None or not statement.words:
        raise WrongItem("Statement is missing; an item needs it", statement.line if statement else 0)
    added_at, doubts = items.day(added.words, today, added.line) if added else ("", ())
    validated_at, more = items.day(validated.words, today, validated.line) if validated else ("", ())
    item = MemoryItem(
        id=section.id,
        subject=one_line(section.heading.removeprefix(section.id)),
        statement=statement.words,
        evidence=_evidence(section.id, fields.named("Evidence")),
        added=added_at,
        last_validated=validated_at,
        status=_status(status),
        contradictions=_contradictions(section.id, fields.named("Contradictions")),
    )
    return ItemRead(item, (*doubts, *more))


def _status(field: SectionField | None) -> BeliefStatus:
    words = field.words.casefold() if field else BeliefStatus.ACTIVE.value
    allowed = [each.value for each in BeliefStatus]
    if field and words not in allowed:
        raise WrongItem(f"Status {words[:40]!r}; expected {', '.join(allowed)}", field.line)
    return BeliefStatus(words)


def _contradictions(id: str, field: SectionField | None) -> tuple[str, ...]:
    entries = field.entries() if field else []
    for entry in entries:
        if field and (not _ID.fullmatch(entry) or entry == id):
            what = f"Contradictions has {entry[:40]!r}; expected ids of others, such as L-000001, or None"
            raise WrongItem(what, field.line)
    return tuple(entries)


def _evidence(id: str, field: SectionField | None) -> tuple[Evidence, ...]:
    if field is None:
        return ()
    found = list[Evidence]()
    for entry in field.entries():
        try:
            pairs = pairs_of(entry)
            origin = Origin(pairs.get("Origin", Origin.ACT.value).casefold())
        except ValueError as error:
            raise WrongItem(f"Evidence: {error}; expected {', '.join(_KEYS)}", field.line) from None
        if not pairs.get("Source") or not pairs.keys() <= {*_KEYS}:
            raise WrongItem(f"Evidence has {', '.join(pairs)[:60]}; expected {', '.join(_KEYS)}", field.line)
        if re.search(rf"\b{id}\b", pairs["Source"]):
            raise WrongItem("names itself as its evidence, and so does not count; name an event", field.line)
        found.append(Evidence(pairs.get("Run", ""), pairs.get("Step", ""), pairs["Source"], origin))
    return tuple(found)


def _fields(item: MemoryItem) -> Mapping[str, str]:
    evidence = [
        {
            "Source": each.line,
            "Run": each.run,
            "Step": each.step,
            "Origin": each.origin.value,
        }
        for each in item.evidence
    ]
    return {
        "Statement": line_field("Statement", item.statement),
        "Evidence": list_field("Evidence", evidence),
        "Added": line_field("Added", item.added or items.NEVER),
        "Last_validated": line_field("Last_validated", item.last_validated or items.NEVER),
        "Status": line_field("Status", item.status.value) if item.status is not BeliefStatus.ACTIVE else "",
        "Contradictions": list_field("Contradictions", item.contradictions) if item.contradictions else "",
    }


def _heading(item: MemoryItem) -> str:
    return one_line(f"{item.id} {item.subject}")


LONG_TERM_FILE = ItemFile[MemoryItem](layout.LONG_TERM, "Long-term memory", PREFIX, _read, _fields, _heading)
parse, write, edit, add = LONG_TERM_FILE.parse, LONG_TERM_FILE.write, LONG_TERM_FILE.edit, LONG_TERM_FILE.add
remove, next_id = LONG_TERM_FILE.remove, LONG_TERM_FILE.next_id
