"""The contents of a planned world, and what is known of them: pure, from the plan and a number.

Each file carries a nonce that stands in no other file. The answers are sums of many numbers, and words and codes that
were drawn; none of them follows from a name."""

from __future__ import annotations

import base64
import codecs
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from draws import Draws, Nonces
from world_plan import TAGS, Plan, Planned

VERSION = 1
ANSWER_SYLLABLES = 4
"""More than any word in a file's name has, so that no name has a part of an answer."""
VALUES = 130_000, 999_999
"""Of a table. Eight of them or more make a sum, which so has seven digits at least: no nonce has as many in a row."""


@dataclass(frozen=True)
class World:
    """Texts by their paths below the world's root, and what is known of them."""

    texts: dict[str, str]
    known: dict[str, Any]


def fill(plan: Plan, contents: int, size: str | int) -> World:
    """The same plan with another number is the twin."""
    draws = Draws(plan.seed, len(plan.files), "contents", contents)
    nonces = Nonces(draws, frozenset(file.nonce for file in plan.files))
    filler = _Filler(plan, draws, nonces)
    texts = {file.path: filler.text(file) for file in plan.files}
    items = [
        {
            "id": f"item-{number:05}",
            "path": file.path,
            "name_nonce": file.nonce,
            "content_nonce": filler.nonce[file.path],
        }
        for number, file in enumerate((file for file in plan.files if file.nonce), 1)
    ]
    known = {
        "version": VERSION,
        "seed": plan.seed,
        "size": size,
        "contents": contents,
        "files": [fact(file.path, texts[file.path].encode(), file.kind) for file in plan.files],
        "items": items,
        "questions": filler.questions(),
    }
    return World({path.removeprefix("/world/"): text for path, text in texts.items()}, known)


def fact(path: str, content: bytes, kind: str) -> dict[str, Any]:
    """What known.json tells of a file; lines are what `wc -l` counts."""
    return {
        "path": path,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "lines": content.count(b"\n"),
        "kind": kind,
    }


class _Filler:
    def __init__(self, plan: Plan, draws: Draws, nonces: Nonces) -> None:
        self._plan, self._draws, self._nonces = plan, draws, nonces
        self.nonce: dict[str, str] = {}
        self._rows: dict[str, list[tuple[str, int, int, str]]] = {}
        self._stock: dict[str, list[tuple[str, int]]] = {}
        self._codes = {chain.end: f"{draws.between(10**8, 10**9 - 1)}" for chain in plan.chains}
        self._clue = " ".join(draws.word(ANSWER_SYLLABLES) for _ in range(4))
        for first, second in plan.inventories:
            self._stock[first], self._stock[second] = self._two_counts()

    def text(self, file: Planned) -> str:
        """The file's content; it ends with a newline."""
        self.nonce[file.path] = nonce = self._nonces.new()
        match file.kind:
            case "readme":
                return _README.format(" or ".join(f"`{hint}`" for hint in file.refers))
            case "table":
                return self._table(file, nonce)
            case "inventory":
                return self._inventory(file, nonce)
            case "record":
                return self._record(file, nonce)
            case "log":
                return self._log(file, nonce)
            case "note":
                return f"# {self._draws.word()}\n\nMarked {nonce}. {self._prose()}\n\nMore in `{file.refers[0]}`.\n"
            case "reference":
                return (
                    f"# {self._draws.word()}\n\nMarked {nonce}. {self._prose()}\n\n"
                    f"The code of `{file.key}`: look up `{file.key}` in `{file.refers[0]}`, and go on from there.\n"
                )
            case "puzzle":
                told = _encoded(f"Look into {file.refers[0]}", file.encoding)
                return f"A riddle, marked {nonce}. Somebody wrote it in {file.encoding}:\n\n{told}\n"
            case "clue":
                return f"CLUE: {self._clue} {nonce}\n"
            case "dead end":
                return (
                    f"Marked {nonce}. {self._prose()}\nWhat was here was taken to `{file.refers[0]}`, or so they say.\n"
                )

    def questions(self) -> list[dict[str, Any]]:
        """Asked after a run. Each names the files that it needs, and not the answer."""
        asked: list[tuple[str, str, str, list[str]]] = []
        for path, column, tag in self._plan.tables_asked:
            place = 1 + self._columns(path).index(column)
            total = sum(int(row[place]) for row in self._rows[path] if row[3] == tag)
            text = (
                f"What is the sum of the column {column} in {path}, over the rows whose tag is {tag}? A whole number."
            )
            asked.append(("sum", text, str(total), [path]))
        for first, second in self._plan.inventories:
            other = dict(self._stock[second])
            names = ", ".join(sorted(name for name, count in self._stock[first] if other[name] != count))
            text = (
                f"Of which articles does {first} tell another count than {second}? "
                "Their names in alphabetical order, with commas between them."
            )
            asked.append(("disagreement", text, names, [first, second]))
        clue = f"{self._clue} {self.nonce[self._plan.clue]}"
        asked.append(("clue", f"Which words follow CLUE: in {self._plan.clue}?", clue, [self._plan.clue]))
        for chain in self._plan.chains:
            text = f"Which code does one find who begins with {chain.start} and follows what it refers to, to the end?"
            asked.append(("reference", text, self._codes[chain.end], [chain.start, chain.through, chain.end]))
        return [
            {"id": f"q{number:03}", "kind": kind, "text": text, "answer": answer, "files": files}
            for number, (kind, text, answer, files) in enumerate(asked, 1)
        ]

    def _columns(self, path: str) -> tuple[str, ...]:
        return next(file.columns for file in self._plan.files if file.path == path)

    def _prose(self) -> str:
        words = [self._draws.word(self._draws.between(2, 4)) for _ in range(self._draws.between(8, 20))]
        return f"{' '.join(words).capitalize()}."

    def _table(self, file: Planned, nonce: str) -> str:
        draws = self._draws
        tags = [*(TAGS * 8), *(draws.one(TAGS) for _ in range(draws.between(1, 12)))]
        rows = [
            (f"{nonce}-{number:03}", draws.between(*VALUES), draws.between(*VALUES), tag)
            for number, tag in enumerate(draws.some(tags, len(tags)), 1)
        ]
        self._rows[file.path] = rows
        head = ",".join(("id", *file.columns, "tag"))
        return "\n".join((head, *(",".join(map(str, row)) for row in rows), ""))

    def _inventory(self, file: Planned, nonce: str) -> str:
        stock = self._stock[file.path]
        if file.path.endswith(".csv"):
            return "\n".join(("article,count,sheet", *(f"{name},{count},{nonce}" for name, count in stock), ""))
        articles = [{"article": name, "count": count} for name, count in stock]
        return _json({"sheet": nonce, "compare": file.refers[0], "articles": articles})

    def _two_counts(self) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
        draws = self._draws
        names: list[str] = []
        while len(names) < 24:
            names += [name for name in (draws.word(ANSWER_SYLLABLES),) if name not in names]
        first = {name: draws.between(10, 9999) for name in names}
        second = dict(first)
        for name in draws.some(names, draws.between(3, 5)):
            second[name] += draws.between(1, 99)
        return list(first.items()), [(name, second[name]) for name in draws.some(names, len(names))]

    def _record(self, file: Planned, nonce: str) -> str:
        draws = self._draws
        entries = {draws.word(4): {"weight": draws.between(1, 9999), "see": ""} for _ in range(12)}
        if file.key:
            entries[file.key] = {"weight": draws.between(1, 9999), "see": file.refers[0]}
        ordered = dict(sorted(entries.items()))
        return _json({"record": nonce, "of": draws.word(), "beside": file.refers[0], "entries": ordered})

    def _log(self, file: Planned, nonce: str) -> str:
        draws = self._draws
        second = draws.below(10**6)
        keyed = draws.between(5, 25) if file.key else -1
        lines = []
        for number in range(draws.between(30, 60)):
            second += draws.between(1, 900)
            about = file.key if number == keyed else draws.word(4)
            code = self._codes[file.path] if number == keyed else f"{draws.between(10**8, 10**9 - 1)}"
            lines.append(f"{_clock(second)} session={nonce} about={about} code={code}")
        return "\n".join((*lines, ""))


_README = """# World

A set of files, mounted read-only at `/world`, for an explorer to discover: tables, records, logs, notes and riddles.

- Some files refer to others; some references lead nowhere.
- Two inventories of the same articles do not agree everywhere.
- Somebody hid a clue. Not everything shows itself in a plain listing.
- One might begin with {}.
"""


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1) + "\n"


def _clock(second: int) -> str:
    days, rest = divmod(second, 86_400)
    return f"{1 + days:02}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _encoded(text: str, encoding: str) -> str:
    if encoding == "base64":
        return base64.b64encode(text.encode()).decode()
    return text[::-1] if encoding == "reversed" else codecs.encode(text, "rot13")
