"""Recall in a memory of ten thousand notes: how long a search takes, and whether it finds what is asked for.

A question asks for one note: by words of that note in another form, or by none of them, with up to eight synonyms of
each word. Notes, questions and thesaurus are made from `words.txt`, by a seed."""

from __future__ import annotations

import collections
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.tables import Table, times
from infra.cell.mind.recall import files_of, search

ROUNDS = 200
"""Questions of each kind."""
NOTES, BEST, SYNONYMS = 10_000, 5, 8
LINES = [line for line in Path(__file__).with_name("words.txt").read_text().splitlines() if not line.startswith("#")]
THINGS = [[pair.split("/") for pair in line.split("; ")] for line in LINES[:5]]
NEAR = collections.defaultdict[str, dict[str, None]](dict)
for _group in LINES[5:]:
    for _word in _group.split():
        NEAR[_word].update(dict.fromkeys(other for other in _group.split() if other != _word))


class Note(NamedTuple):
    words: list[str]
    statement: str


def run(directory: Path, count: int) -> list[Table]:
    notes = made(NOTES)
    write(directory, notes)
    took: dict[str, list[float]] = {"words of the note": [], "synonyms alone": []}
    right = dict.fromkeys(took, 0)
    for note in random.Random(2).sample(range(NOTES), count):
        for kind, words in zip(took, questions(notes[note]), strict=True):
            began = time.perf_counter()
            files, _ = files_of(str(directory))
            right[kind] += note_id(note) in [hit.id for hit in search(files, words, results=BEST)]
            took[kind].append(time.perf_counter() - began)
    told = [f"{kind}: {many} of {count} right among the first {BEST}" for kind, many in right.items()]
    return [times(f"one search of {NOTES:,} notes", took, {}, *told)]


def note_id(note: int) -> str:
    return f"L-{note + 1:06}"


def made(many: int) -> list[Note]:
    """No two say the same."""
    chosen, notes = random.Random(1), dict[tuple[int, ...], Note]()
    while len(notes) < many:
        key = tuple(chosen.randrange(len(slot)) for slot in THINGS)
        words = [slot[at][0] for slot, at in zip(THINGS, key, strict=True)]
        text = "The {1} {2} the {4} {0} near the {3} on".format(*words)
        said = f"{text} {chosen.randrange(1, 28)} March, room {chosen.randrange(1000)}."
        notes.setdefault(key, Note(words, said))
    return list(notes.values())


def questions(note: Note) -> tuple[str, str]:
    ask = "Which {4} {0}s were {2} by the {1}s near our {3}?".format
    others = ask(*(dict(slot)[word] for slot, word in zip(THINGS, note.words, strict=True)))
    words = [word.strip("?").casefold() for word in others.split()]
    near = [other for word in words for other in [*(NEAR.get(word) or NEAR.get(_base(word)) or ())][:SYNONYMS]]
    return ask(*note.words), " ".join([others, *near])


def _base(word: str) -> str:
    ending = next((ending for ending in ("ies", "ed", "s") if word.endswith(ending)), "")
    return word.removesuffix(ending) + ("y" if ending == "ies" else "")


def write(root: Path, notes: Sequence[Note]) -> None:
    """As `memory/long_term.md` holds them."""
    (root / "memory").mkdir()
    texts = (
        f"## {note_id(at)}\nClaim: {said}\nSubject: {words[0]} and {words[3]}\nAdded: 2026-01-01\n\n"
        for at, (words, said) in enumerate(notes)
    )
    (root / "memory/long_term.md").write_text("# Long-term memory\n\n" + "".join(texts))
