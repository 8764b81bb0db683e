"""Takes words and items out of texts of the mind: what `minifram mind forget` does to each file and event. Pure."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from infra.shared.mind.event import as_line, hash_of
from infra.shared.mind.sections import document_of

IN_ITS_PLACE = "[forgotten]"
LEAST_CHARS = 3
_ID = re.compile(r"[A-Z]{1,12}-[0-9]{1,12}")
_HASH = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class Forgetting(NamedTuple):
    """What is to be forgotten."""

    words: tuple[str, ...]
    """Wherever they stand, whatever stands around them; blanks between them may be any, line ends too."""
    ids: tuple[str, ...] = ()
    """Sections with these ids go as a whole."""

    def text(self, content: bytes, hashes: Mapping[str, str] = {}) -> bytes:
        """A file without it. `hashes`: of events that were made anew, old -> new."""
        if self.ids and any(f"## {id}".encode() in content for id in self.ids):
            content = self._without_sections(content)
        for word in self.words:
            content = _pattern(word).sub(IN_ITS_PLACE.encode(), content)
        if hashes:
            content = _HASH.sub(lambda found: hashes.get(found[0].decode(), found[0].decode()).encode(), content)
        return content

    def is_in(self, content: bytes) -> bool:
        return self.text(content) != content

    def _without_sections(self, content: bytes) -> bytes:
        document = document_of(content.decode(errors="surrogateescape"))
        kept = tuple(section for section in document.sections if section.id not in self.ids)
        return document._replace(sections=kept).whole().encode(errors="surrogateescape")


def forgetting_of(asked: Sequence[str]) -> Forgetting:
    """Raises ValueError for what cannot be asked for."""
    ids = tuple(word for word in asked if _ID.fullmatch(word))
    words = tuple(" ".join(word.split()) for word in asked if not _ID.fullmatch(word))
    for word in words:
        if len(word) < LEAST_CHARS:
            raise ValueError(f"{word!r} is too short: it stands in the middle of other words; give more of it")
        if word.casefold() in IN_ITS_PLACE:
            raise ValueError(f"{word!r} stands in what is written in the place of forgotten words")
    if not ids and not words:
        raise ValueError("nothing was named; give an id such as B-000123, or words")
    return Forgetting(words, ids)


@functools.cache
def _pattern(word: str) -> re.Pattern[bytes]:
    """As the text stands, and as JSON spells it. Small and capital letters are one, beyond ASCII too."""
    gap = rb"(?:\s|\\[nrt])+"
    return re.compile(gap.join(b"".join(map(_spellings, part)) for part in word.split()), re.IGNORECASE)


def _spellings(letter: str) -> bytes:
    """A pattern of all of them."""
    alike = {letter, letter.lower(), letter.upper()}
    plain = {each.encode(errors="surrogateescape") for each in alike}
    plain |= {json.dumps(each)[1:-1].encode() for each in alike}
    return b"(?:" + b"|".join(re.escape(each) for each in sorted(plain, key=len, reverse=True)) + b")"


class EventsForgotten(NamedTuple):
    """Files of events without what is forgotten, and chained anew."""

    files: dict[str, bytes]
    """Those that changed, by path."""
    changed: int
    """Events that held something of it."""
    hashes: dict[str, str]
    """Of all events whose hash is another now: old -> new."""


class _EventPlace(NamedTuple):
    path: str
    at: int
    """Which line of the file, from 0."""
    fields: dict[str, Any]


def forget_events(files: Mapping[str, bytes], forgetting: Forgetting) -> EventsForgotten:
    """All files of events, path -> content. The chain is made anew from the first event that changes; where it was
    broken it stays broken, so that nobody hides something behind a forgetting."""
    lines = {path: content.split(b"\n") for path, content in files.items()}
    before = {path: list(those) for path, those in lines.items()}
    places, changed = list[_EventPlace](), 0
    for path, those in lines.items():
        for at, line in enumerate(those):
            fields = _event(line)
            if fields is not None:
                places.append(_EventPlace(path, at, fields))
            else:  # torn, or not ours
                those[at] = forgetting.text(line)
                changed += those[at] != line
    hashes = dict[str, str]()
    for path, at, fields in sorted(places, key=lambda each: each.fields["seq"]):
        old = fields["hash"]
        was_right = _is_right(fields)
        new = _forgotten_in(fields, forgetting, hashes)
        if new == fields:
            continue
        if was_right:  # an event that was rewritten before stays one that does not fit
            new["hash"] = hash_of(new)
            hashes[old] = new["hash"]
        lines[path][at] = as_line(new)[:-1]
        changed += _forgotten_in(fields, forgetting, {}) != fields
    files_changed = {path: b"\n".join(those) for path, those in lines.items() if those != before[path]}
    return EventsForgotten(files_changed, changed, hashes)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_one = isinstance(fields, dict) and type(fields.get("seq")) is int
    return (
        fields if is_one and isinstance(fields.get("hash"), str) and isinstance(fields.get("previous"), str) else None
    )


def _is_right(fields: dict[str, Any]) -> bool:
    try:
        return bool(hash_of(fields) == fields["hash"])
    except ValueError:
        return False


def _forgotten_in(value: Any, forgetting: Forgetting, hashes: Mapping[str, str]) -> Any:
    """The same value without it, at any depth; keys too."""
    if isinstance(value, str):
        return forgetting.text(value.encode(errors="surrogatepass"), hashes).decode(errors="surrogatepass")
    if isinstance(value, list):
        return [_forgotten_in(each, forgetting, hashes) for each in value]
    if isinstance(value, dict):
        return {
            _forgotten_in(key, forgetting, {}): _forgotten_in(each, forgetting, hashes) for key, each in value.items()
        }
    return value
