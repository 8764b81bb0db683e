"""The world of three files that the project brings: what is known of it, and its twin.

Its names can be guessed by anybody who has seen this repository, so nothing in it counts as a nonce."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from draws import Draws
from world_fill import VERSION, World, fact

DIRECTORY = Path(__file__).parents[1] / "world"
KNOWN = Path(__file__).with_name("seed_known.json")
KINDS = {"README.md": "readme", "data.csv": "table", "puzzles/hidden.txt": "clue"}
CLUE = "CLUE: "
_TAGS = ("red", "blue", "green")


def twin(contents: int) -> World:
    """The same names with other rows and another clue; the README is the same."""
    draws = Draws("seed world", contents)
    rows = [(number, draws.between(100, 9999), draws.one(_TAGS)) for number in range(1, draws.between(9, 15))]
    clue = " ".join(draws.word() for _ in range(8))
    texts = {
        "README.md": (DIRECTORY / "README.md").read_text(encoding="utf-8"),
        "data.csv": "\n".join(("id,value,tag", *(",".join(map(str, row)) for row in rows), "")),
        "puzzles/hidden.txt": f"{CLUE}{clue.capitalize()}.\n",
    }
    return World(texts, known(texts) | {"contents": contents})


def known(texts: dict[str, str]) -> dict[str, Any]:
    """What can be asked of three files of these names, by their paths below the world's root."""
    rows = list(csv.DictReader(io.StringIO(texts["data.csv"])))
    total = sum(int(row["value"]) for row in rows)
    blue = sum(int(row["value"]) for row in rows if row["tag"] == "blue")
    clue = texts["puzzles/hidden.txt"].strip().removeprefix(CLUE)
    table, hidden = "/world/data.csv", "/world/puzzles/hidden.txt"
    asked = (
        ("sum", f"What is the sum of the column value in {table}? A whole number.", str(total), table),
        ("sum", f"What is the sum of the column value in {table}, over the rows whose tag is blue? A whole number.",
         str(blue), table),
        ("clue", f"Which words follow CLUE: in {hidden}?", clue, hidden),
    )  # fmt: skip
    return {
        "version": VERSION,
        "seed": None,
        "size": None,
        "files": [fact(f"/world/{path}", texts[path].encode(), kind) for path, kind in KINDS.items()],
        "items": [
            {"id": f"item-{number}", "path": f"/world/{path}", "name_nonce": "", "content_nonce": ""}
            for number, path in enumerate(KINDS, 1)
        ],
        "questions": [
            {"id": f"q{number:03}", "kind": kind, "text": text, "answer": answer, "files": [path]}
            for number, (kind, text, answer, path) in enumerate(asked, 1)
        ],
    }
