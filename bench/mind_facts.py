"""A memory of any size, by a seed: notes of five things each, and questions for some of them, with the words of the
note or with other words for the same. The words were chosen beside `thesaurus.txt`, not from it. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_SLOTS: tuple[tuple[tuple[str, str], ...], ...] = (
    (
        ("printer", "copier"),
        ("server", "host"),
        ("database", "datastore"),
        ("bicycle", "bike"),
        ("camera", "camcorder"),
        ("boat", "vessel"),
        ("engine", "motor"),
        ("website", "homepage"),
        ("lamp", "lantern"),
        ("elevator", "lift"),
        ("couch", "sofa"),
        ("phone", "handset"),
        ("car", "automobile"),
        ("warehouse", "depot"),
        ("invoice", "bill"),
        ("contract", "agreement"),
        ("backup", "replica"),
        ("ticket", "voucher"),
        ("parcel", "package"),
        ("medicine", "drug"),
    ),
    (
        ("doctor", "physician"),
        ("lawyer", "attorney"),
        ("customer", "client"),
        ("employee", "worker"),
        ("teacher", "instructor"),
        ("student", "pupil"),
        ("supplier", "vendor"),
        ("visitor", "guest"),
        ("manager", "boss"),
        ("cook", "chef"),
        ("neighbour", "resident"),
        ("assistant", "helper"),
        ("owner", "proprietor"),
        ("pilot", "aviator"),
        ("burglar", "thief"),
        ("friend", "companion"),
    ),
    (
        ("repaired", "mended"),
        ("bought", "purchased"),
        ("deleted", "erased"),
        ("inspected", "examined"),
        ("delivered", "dispatched"),
        ("hid", "concealed"),
        ("chose", "selected"),
        ("broke", "shattered"),
        ("started", "launched"),
        ("finished", "concluded"),
        ("lost", "misplaced"),
        ("paid", "settled"),
        ("locked", "bolted"),
        ("painted", "coloured"),
        ("rented", "leased"),
        ("cleaned", "scrubbed"),
    ),
    (
        ("kitchen", "galley"),
        ("office", "workplace"),
        ("garden", "yard"),
        ("basement", "cellar"),
        ("hospital", "clinic"),
        ("library", "reading room"),
        ("school", "academy"),
        ("harbour", "dock"),
        ("forest", "woods"),
        ("river", "stream"),
        ("shop", "boutique"),
        ("prison", "jail"),
        ("apartment", "flat"),
        ("street", "road"),
        ("station", "terminus"),
        ("airport", "airfield"),
    ),
    (
        ("expensive", "costly"),
        ("cheap", "inexpensive"),
        ("broken", "defective"),
        ("quick", "rapid"),
        ("heavy", "weighty"),
        ("ancient", "aged"),
        ("dirty", "filthy"),
        ("tiny", "little"),
        ("furious", "irate"),
        ("weary", "tired"),
        ("quiet", "silent"),
        ("wealthy", "rich"),
        ("clever", "smart"),
        ("icy", "freezing"),
        ("vital", "crucial"),
        ("annual", "yearly"),
    ),
)
"""What a note says, and what a question says instead."""
NOTES, ASKED, SYNONYMS = 10_000, 200, 8


class Note(NamedTuple):
    id: str
    subject: str
    statement: str


class Question(NamedTuple):
    note: str
    """The id of the one that answers it."""
    shared: str
    """With words of the note, in another form."""
    synonyms: str
    """With none of them."""


def notes(many: int, seed: int = 1) -> list[Note]:
    """No two say the same."""
    chosen, made = random.Random(seed), dict[tuple[int, ...], Note]()
    while len(made) < many:
        key = tuple(chosen.randrange(len(slot)) for slot in _SLOTS)
        thing, who, did, where, how = (slot[at][0] for slot, at in zip(_SLOTS, key, strict=True))
        day = f"{chosen.randrange(1, 28)} March"
        statement = f"The {who} {did} the {how} {thing} near the {where} on {day}, room {chosen.randrange(1000)}."
        made.setdefault(key, Note(f"L-{len(made) + 1:06}", f"{thing} and {where}", statement))
    return list(made.values())


def questions(asked_of: Sequence[Note], many: int = ASKED, seed: int = 2) -> list[Question]:
    return [_question(note) for note in random.Random(seed).sample(list(asked_of), many)]


def _question(note: Note) -> Question:
    words = note.statement.split()
    who, did, how, thing, where = words[1], words[2], words[4], words[5], words[8]
    others = {mine: other for slot in _SLOTS for mine, other in slot}
    ask = "Which {how} {thing}s were {did} by the {who}s near our {where}?".format
    given = {"how": how, "thing": thing, "did": did, "who": who, "where": where}
    return Question(note.id, ask(**given), ask(**{name: others[word] for name, word in given.items()}))


def with_synonyms(question: str, thesaurus: Mapping[str, Sequence[str]]) -> str:
    """The question and, behind it, up to eight synonyms of each word, by singular and plural."""
    words = [word.strip("?.,").casefold() for word in question.split()]
    more = [near for word in words for near in (thesaurus.get(word) or thesaurus.get(_base(word)) or ())[:SYNONYMS]]
    return " ".join((question, *more))


def _base(word: str) -> str:
    for ending in ("ies", "ed", "s"):
        if word.endswith(ending):
            return word.removesuffix(ending) + ("y" if ending == "ies" else "")
    return word


def thesaurus_of(text: str) -> dict[str, list[str]]:
    """Of each word the others of its groups."""
    near: dict[str, dict[str, None]] = {}
    for line in text.splitlines():
        group = [] if line.startswith("#") else line.split()
        for word in group:
            near.setdefault(word, {}).update(dict.fromkeys(other for other in group if other != word))
    return {word: list(others) for word, others in near.items()}


def long_term(of: Sequence[Note]) -> str:
    """As `memory/long_term.md` holds them."""
    return "# Long-term memory\n\n" + "".join(
        f"## {note.id} {note.subject}\nStatement: {note.statement}\nAdded: 2026-01-01\nLast_validated: never\n\n"
        for note in of
    )
