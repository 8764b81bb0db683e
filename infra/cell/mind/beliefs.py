"""`memory/beliefs.md`: a section for each belief, `## B-000123`. Reading and writing it is `BELIEFS_FILE`'s; see
`items.ItemFile` for what its methods promise."""

from __future__ import annotations

import re
from collections.abc import Mapping

from infra.cell.mind import items
from infra.cell.mind.claims import Belief, BeliefStatus, BeliefType, Source
from infra.cell.mind.fields import SectionField, SectionFields, line_field, list_field, pairs_of, prose_field
from infra.cell.mind.items import ItemFile, ItemRead, WrongItem
from infra.shared.mind import layout
from infra.shared.mind.sections import MindSection

PREFIX = "B"
_ID = re.compile(r"B-[0-9]{1,12}")
_OTHER = re.compile(r"[BL]-[0-9]{1,12}")
"""What a belief can contradict: another one, or an item of long-term memory."""
_CONFIDENCE = re.compile(r"(0|1|[01]?\.[0-9]{1,20}|[01]\.)")
NEEDED = ("Claim", "Confidence", "Status", "Type")


def _read(section: MindSection, fields: SectionFields, today: str) -> ItemRead[Belief]:
    def words(name: str) -> str:
        field = fields.named(name)
        return field.words if field else ""

    for name in NEEDED:
        if not words(name):
            field = fields.named(name)
            raise WrongItem(f"{name} is missing; a belief needs {', '.join(NEEDED)}", field.line if field else 0)
    provenance, contradictions = _sources(fields.named("Provenance")), _ids(fields.named("Contradictions"))
    _refuse_itself(section.id, fields.named("Provenance"), provenance, contradictions)
    at = fields.named("Last_validated")
    validated, doubts = items.day(at.words, today, at.line) if at else ("", ())
    notes = fields.named("Notes")
    belief = Belief(
        id=section.id,
        claim=words("Claim"),
        confidence=_confidence(fields.fields, words("Confidence")),
        status=BeliefStatus(_one_of("Status", fields, [each.value for each in BeliefStatus])),
        type=BeliefType(_one_of("Type", fields, [each.value for each in BeliefType])),
        provenance=provenance,
        last_validated=validated,
        contradictions=contradictions,
        notes=notes.prose if notes else "",
        subject=words("Subject"),
    )
    return ItemRead(belief, doubts)


def _line(fields: tuple[SectionField, ...], name: str) -> int:
    return next((field.line for field in fields if field.name == name), 0)


def _confidence(fields: tuple[SectionField, ...], words: str) -> float:
    if not _CONFIDENCE.fullmatch(words) or float(words) > 1:
        raise WrongItem(f"Confidence {words[:40]!r}; expected a number from 0 to 1", _line(fields, "Confidence"))
    return round(float(words), 4)


def _one_of(name: str, fields: SectionFields, allowed: list[str]) -> str:
    field = fields.named(name)
    words = field.words.casefold() if field else ""
    if words not in allowed:
        raise WrongItem(f"{name} {words[:40]!r}; expected {', '.join(allowed)}", _line(fields.fields, name))
    return words


def _sources(field: SectionField | None) -> tuple[Source, ...]:
    found = list[Source]()
    for entry in field.entries() if field else ():
        try:
            pairs = pairs_of(entry)
        except ValueError as error:
            raise WrongItem(f"Provenance: {error}; expected Source and Evidence", field.line if field else 0) from None
        if not pairs.get("Source") or not pairs.keys() <= {"Source", "Evidence"}:
            what = f"Provenance has {', '.join(pairs)[:60]}; expected Source and Evidence"
            raise WrongItem(what, field.line if field else 0)
        found.append(Source(pairs["Source"], pairs.get("Evidence", "")))
    return tuple(found)


def _ids(field: SectionField | None) -> tuple[str, ...]:
    entries = field.entries() if field else []
    for entry in entries:
        if not _OTHER.fullmatch(entry):
            what = f"Contradictions has {entry[:40]!r}; expected ids such as B-000001, or None"
            raise WrongItem(what, field.line if field else 0)
    return tuple(entries)


def _refuse_itself(
    id: str, field: SectionField | None, provenance: tuple[Source, ...], contradictions: tuple[str, ...]
) -> None:
    named = [word for source in provenance for words in source for word in _ID.findall(words)]
    if id in named:
        what = "names itself as its evidence, and so does not count; name an event, a commit or a file"
        raise WrongItem(what, field.line if field else 0)
    if id in contradictions:
        raise WrongItem("contradicts itself; name the other belief, or None")


def _fields(belief: Belief) -> Mapping[str, str]:
    confidence = f"{belief.confidence:.4f}".rstrip("0").rstrip(".")
    sources = [{"Source": each.source, "Evidence": each.evidence} for each in belief.provenance]
    return {
        "Claim": line_field("Claim", belief.claim),
        "Subject": line_field("Subject", belief.subject) if belief.subject.strip() else "",
        "Confidence": line_field("Confidence", confidence),
        "Status": line_field("Status", belief.status.value),
        "Type": line_field("Type", belief.type.value),
        "Provenance": list_field("Provenance", sources),
        "Last_validated": line_field("Last_validated", belief.last_validated or items.NEVER),
        "Contradictions": list_field("Contradictions", belief.contradictions),
        "Notes": prose_field("Notes", belief.notes) if belief.notes.strip() else "",
    }


BELIEFS_FILE = ItemFile[Belief](layout.BELIEFS, "Beliefs", PREFIX, _read, _fields, lambda belief: belief.id)
parse, write, edit, add = BELIEFS_FILE.parse, BELIEFS_FILE.write, BELIEFS_FILE.edit, BELIEFS_FILE.add
remove, next_id = BELIEFS_FILE.remove, BELIEFS_FILE.next_id
