"""Two versions of a file of the mind made one, by sections: what one side alone changed is taken from it; where both
changed the same section the shared branch's text stands, and the other is handed back to be kept. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from infra.shared.mind.sections import Document, document_of

_NEXT = re.compile(r"^Next:[ \t]*([A-Z]{1,12})-([0-9]{1,9})[ \t\r]*$", re.MULTILINE)
_Key = tuple[str, int]
"""A section's id, and how many of that id stand above it. The head is `("", -1)`."""
_HEAD: _Key = ("", -1)


class KeptSection(NamedTuple):
    """What lost against the shared branch's version."""

    id: str
    """Of the section; empty for what stands above the first one, `*` for the whole file."""
    text: str


class MergedText(NamedTuple):
    text: str
    kept: tuple[KeptSection, ...] = ()


WHOLE = "*"


def merge_texts(base: str | None, ours: str, theirs: str) -> MergedText:
    """`theirs` is the shared branch's version, which the PM may have written; `base` is what both come from, None when
    that is not known: then nothing counts as taken out."""
    if ours in (theirs, base):
        return MergedText(theirs)
    if theirs == base:
        return MergedText(ours)
    versions = _sections(base or ""), _sections(ours), _sections(theirs)
    chosen, kept = dict[_Key, str](), list[KeptSection]()
    for key in _order(versions[1], versions[2]):
        before, our, their = (version.get(key) for version in versions)
        text, lost = _one_section(key, before, our, their, base is not None)
        if text is not None:
            chosen[key] = text
        if lost is not None:
            kept.append(KeptSection(key[0], lost))
    whole = _joined(chosen)
    # An unfinished fenced block of the one would swallow the sections of the other.
    read = _sections(whole)
    if list(read) != list(chosen) or not all(_same(text, read[key]) for key, text in chosen.items()):
        return MergedText(theirs, (KeptSection(WHOLE, ours),))
    return MergedText(whole, tuple(kept))


def _sections(text: str) -> dict[_Key, str]:
    document: Document = document_of(text)
    found = {_HEAD: document.head}
    times: dict[str, int] = {}
    for section in document.sections:
        nth = times[section.id] = times.get(section.id, -1) + 1
        found[section.id, nth] = section.text
    return found


def _order(ours: dict[_Key, str], theirs: dict[_Key, str]) -> list[_Key]:
    """Theirs, with each that only we have behind the one that it follows here."""
    keys, previous = list(theirs), _HEAD
    for key in ours:
        if key not in theirs:
            keys.insert(keys.index(previous) + 1, key)
        previous = key
    return keys


def _one_section(
    key: _Key, before: str | None, our: str | None, their: str | None, base_known: bool
) -> tuple[str | None, str | None]:
    """The text that stands, and the one that is kept beside."""
    if key == _HEAD:
        return _one_head(before or "", our or "", their or "")
    if _same(our, their) or _same(our, before):
        return (their if base_known or their is not None else our), None
    if _same(their, before):
        return our, None
    if not base_known and (our is None or their is None):
        return (our if their is None else their), None
    return their, our


def _one_head(before: str, our: str, their: str) -> tuple[str, str | None]:
    plain = [_NEXT.sub("", text).strip() for text in (before, our, their)]
    text = our if plain[2] == plain[0] else their
    lost = our if plain[1] not in (plain[0], plain[2]) and text is their else None
    marks: dict[str, int] = {}
    for prefix, number in _NEXT.findall(f"{our}\n{their}"):
        marks[prefix] = max(marks.get(prefix, 0), int(number))
    for prefix, number in marks.items():
        line = f"Next: {prefix}-{number:06d}"
        mark = re.compile(rf"^Next:[ \t]*{prefix}-[0-9]{{1,9}}[ \t\r]*$", re.MULTILINE)
        if mark.search(text):
            text = mark.sub(line, text)
        else:
            gap = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
            text = f"{text}{gap}{line}\n"
    return text, lost


def _same(one: str | None, other: str | None) -> bool:
    """Blank lines at the end belong to what follows."""
    return one == other or (one is not None and other is not None and one.rstrip() == other.rstrip())


def _joined(chosen: dict[_Key, str]) -> str:
    """With a blank line between what did not stand together before."""
    whole = ""
    for text in chosen.values():
        if whole and text and not whole.endswith("\n\n"):
            whole += "\n" if whole.endswith("\n") else "\n\n"
        whole += text
    return whole
