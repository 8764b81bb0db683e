"""What the mind holds to be so: the beliefs of `memory/beliefs.md` (`B-000123`) and the items of `memory/long_term.md`
(`L-000123`), facts of one form. Pure but for `read` and `save`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from infra.cell.mind.statements import key_of
from infra.shared.mind.layout import BELIEFS, LONG_TERM
from infra.shared.mind.sections import Problem, entries, sections, with_entry, with_section
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import Below
from infra.shared.text import one_line

PATHS: Final = {"B": BELIEFS, "L": LONG_TERM}
"""By the letter of the id."""
Status = Literal["active", "contested", "deprecated"]
Kind = Literal["invariant-derived", "observed", "inferred", "external"]
Id = Annotated[str, Meta(pattern=r"\A[BL]-[0-9]{1,9}\Z")]
Day = Annotated[str, Meta(pattern=r"\A(|[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+Z)?)\Z")]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename=str.capitalize):
    """An entry of `Provenance:`."""

    source: Annotated[str, Meta(min_length=1)]
    """`event logs/events/2026-01-31.jsonl:17`, or a path of the mind."""
    evidence: str = ""
    """`check, run … step …`, or other words."""


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename=str.capitalize, kw_only=True):
    """A belief, or an item of long-term memory."""

    id: Id
    claim: Annotated[str, Meta(min_length=1)]
    subject: str = ""
    """What it is about, in few words; facts about one subject can contradict each other."""
    confidence: Annotated[float, Meta(ge=0, le=1)] = 0.5
    status: Status = "active"
    type: Kind = "inferred"
    provenance: tuple[Source, ...] = ()
    added: Day = ""
    last_validated: Day = ""
    contradictions: tuple[Id, ...] = ()
    notes: str = ""

    @property
    def key(self) -> str:
        """The same for what says the same of the same thing."""
        return key_of(self.subject, self.claim)


class Facts(NamedTuple):
    """Both files, read."""

    texts: Mapping[str, str]
    every: tuple[Fact, ...]
    problems: tuple[Problem, ...] = ()

    def find(self, id: str) -> Fact | None:
        return next((each for each in self.every if each.id == id), None)

    def next_id(self, letter: str, used: Iterable[str] = ()) -> str:
        """One above the highest that the file has, and that was `used` ever."""
        ids = (*(each.id for each in sections(self.texts.get(PATHS[letter], ""))), *used)
        found = (re.fullmatch(rf"{letter}-([0-9]{{1,9}})", each) for each in ids)
        return f"{letter}-{max((int(each[1]) for each in found if each), default=0) + 1:06d}"

    def with_fact(self, fact: Fact) -> Facts:
        """In the place of the one with its id, or beside the others. Raises ValueError for what cannot be written."""
        path = PATHS[fact.id[0]]
        texts = {**self.texts, path: with_entry(self.texts.get(path, ""), fact)}
        every = {each.id: each for each in self.every} | {fact.id: fact}
        return self._replace(texts=texts, every=tuple(every.values()))


def memory_of(texts: Mapping[str, str]) -> Facts:
    """What each file, by its path, holds; never raises."""
    facts, problems = list[Fact](), list[Problem]()
    for path, text in texts.items():
        found, wrong = entries(path, text, Fact)
        facts += found
        problems += wrong
    return Facts(texts, tuple(facts), tuple(problems))


def read(root: str) -> Facts:
    """Of the mind there. Raises OSError, also for a file that could not be written again without loss."""
    return memory_of({path: _text(root, path) for path in PATHS.values()})


def save(root: str, before: Facts, after: Facts) -> None:
    """The files that are others now. Raises OSError: then what was written stays, and the next pass finds it."""
    for path, text in sorted(after.texts.items()):
        if text != before.texts.get(path, ""):
            write(root, path, text)


def tell_of(root: str, path: str, heading: str, words: str) -> None:
    """As the section of this heading in `reflection/failures.md` or the like, in the place of the one before with the
    same. Raises OSError, also for a file that is no text: it is left as it is."""
    text = _text(root, path) or f"# {os.path.basename(path).removesuffix('.md').title()}\n"
    new = with_section(text, one_line(heading), f"\n{words.strip()}\n")
    if new != text:
        write(root, path, new)


def write(root: str, path: str, text: str | bytes) -> None:
    """Raises OSError."""
    os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
    RedactedFile(f"{root}/{path}").replace(text)


def _text(root: str, path: str) -> str:
    try:
        return Below(root).whole(path).decode()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise OSError(f"{path}: expected UTF-8 text, but {error}; mend it, it was left as it is") from error
