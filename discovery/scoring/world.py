"""Makes a world to discover: python3 scoring/world.py --out DIR [--seed WORD] [--files N]

DIR/world is for the container to mount. DIR/known.json, beside it, says what can be known of it and never goes into a
container. Each file's name and each file's content has a mark: a word of twelve letters that stands nowhere else.
Whoever knows the seed knows the world, so one is drawn when none is given."""

from __future__ import annotations

import argparse
import base64
import codecs
import json
import random
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

TAGS = ("red", "blue", "green", "amber")
LEAST = 14
"""Files: one of each kind, a chain, two inventories, a clue, and the README."""
_ENCODINGS: dict[str, Callable[[str], str]] = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reversed": lambda text: text[::-1],
}


class World:
    """Files by their paths in the container, and what can be asked about them."""

    def __init__(self, seed: str, count: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - the same seed makes the same world; no secret hangs on it
        self.files: dict[str, str] = {}
        self.known: list[dict[str, str]] = []
        self.questions: list[dict[str, str]] = []
        self._directories = ["/world"]
        for _ in range(max(3, count // 6)):
            self._directories.append(f"{self.random.choice(self._directories)}/{self.word(2)}-{self.word(2)}")
        for _ in range(1 + count // 60):
            self._chain()
            self._inventories()
        self._clue()
        kinds = (self._table, self._log, self._note, self._record, self._dead_end, self._puzzle)
        for number in range(count - 1 - len(self.files)):
            kinds[number % len(kinds)]()
        hint = self.random.choice(self._directories[1:])
        self.files["/world/README.md"] = (
            f"# World\n\nFiles to discover. Some lead on, some lead nowhere. Begin with `{hint}`.\n"
        )

    def word(self, syllables: int = 6) -> str:
        """A word of no language; one of six syllables is a mark."""
        return "".join(self.random.choice("bdfgklmnprstvz") + self.random.choice("aeiou") for _ in range(syllables))

    def _ask(self, text: str, answer: object) -> None:
        self.questions.append({"id": f"q{len(self.questions) + 1:03}", "text": text, "answer": str(answer)})

    def _new(self, ending: str, directory: str = "") -> tuple[str, str]:
        """A path and the mark of the content; both are known from now on."""
        name, mark = self.word(), self.word()
        path = f"{directory or self.random.choice(self._directories[1:])}/{self.word(2)}-{name}.{ending}"
        self.known.append({"path": path, "name_mark": name, "mark": mark})
        return path, mark

    def _put(self, path: str, text: str) -> str:
        self.files[path] = text
        return path

    def _any(self) -> str:
        return self.random.choice(sorted(self.files))

    def _number(self) -> int:
        return self.random.randint(10**8, 10**9 - 1)

    # --- one function for each kind of file ------------------------------------------------------

    def _table(self) -> None:
        path, mark = self._new("csv")
        rows = [
            (f"{mark}-{row:02}", self.random.randint(130_000, 999_999), self.random.choice(TAGS)) for row in range(40)
        ]
        self._put(path, "id,amount,tag\n" + "".join(f"{name},{amount},{tag}\n" for name, amount, tag in rows))
        if len(self.questions) < 4 + len(self.files) // 30:
            tag = rows[0][2]
            total = sum(amount for _, amount, each in rows if each == tag)
            self._ask(f"What is the sum of amount in {path} over the rows whose tag is {tag}? A whole number.", total)

    def _log(self, key: str = "", code: int = 0) -> str:
        path, mark = self._new("log")
        lines = [(self.word(4), self._number()) for _ in range(30)]
        if key:
            lines[self.random.randrange(30)] = (key, code)
        return self._put(path, "".join(f"session={mark} about={about} code={number}\n" for about, number in lines))

    def _record(self, key: str = "", see: str = "") -> str:
        path, mark = self._new("json")
        entries = {self.word(4): {"weight": self.random.randint(1, 9999), "see": ""} for _ in range(12)}
        if key:
            entries[key] = {"weight": self.random.randint(1, 9999), "see": see}
        return self._put(path, json.dumps({"record": mark, "entries": dict(sorted(entries.items()))}, indent=1) + "\n")

    def _note(self, more: str = "") -> str:
        path, mark = self._new("md")
        prose = " ".join(self.word(self.random.randint(2, 4)) for _ in range(12)).capitalize()
        more = more or f"More in `{self._any()}`."
        return self._put(path, f"# {self.word(3)}\n\nMarked {mark}. {prose}.\n\n{more}\n")

    def _dead_end(self) -> None:
        path, mark = self._new("txt")
        gone = f"{self.random.choice(self._directories[1:])}/{self.word(2)}-{self.word()}.txt"
        self._put(path, f"Marked {mark}. What was here was taken to `{gone}`, or so they say.\n")

    def _puzzle(self, leads_to: str = "") -> None:
        path, mark = self._new("txt")
        how = self.random.choice(list(_ENCODINGS))
        told = _ENCODINGS[how](f"Look into {leads_to or self._any()}")
        self._put(path, f"A riddle, marked {mark}. Somebody wrote it in {how}:\n\n{told}\n")

    # --- what takes several files ------------------------------------------------------------------

    def _chain(self) -> None:
        """A note names a record and a key; the record names a log under the key; the log has the code."""
        key, code = self.word(3), self._number()
        record = self._record(key, self._log(key, code))
        start = self._note(f"The code of `{key}`: look it up in `{record}`, and go on from there.")
        self._ask(f"Which code is at the end of what {start} refers to?", code)

    def _inventories(self) -> None:
        """Two lists of the same articles, which differ in four."""
        counts = {self.word(4): self.random.randint(10, 9999) for _ in range(24)}
        other = dict(self.random.sample(sorted(counts.items()), len(counts)))
        differing = sorted(self.random.sample(sorted(counts), 4))
        for article in differing:
            other[article] += self.random.randint(1, 99)
        first, mark = self._new("csv")
        self._put(first, "article,count,sheet\n" + "".join(f"{name},{n},{mark}\n" for name, n in counts.items()))
        second, mark = self._new("json")
        self._put(second, json.dumps({"sheet": mark, "compare": first, "articles": other}, indent=1) + "\n")
        self._ask(
            f"For which articles do {first} and {second} differ in the count? Their names in alphabetical order, with "
            "commas between.",
            ", ".join(differing),
        )

    def _clue(self) -> None:
        path, mark = self._new("txt", f"{self.random.choice(self._directories[1:])}/.{self.word(2)}")
        clue = f"{self.word(4)} {self.word(4)} {self.word(4)} {mark}"
        self._put(path, f"CLUE: {clue}\n")
        self._puzzle(leads_to=path)
        self._ask("Which words follow CLUE: in the hidden directory's file?", clue)


def write(seed: str, count: int, out: Path) -> None:
    """Raises OSError, also when `out` exists."""
    world = World(seed, count)
    out.mkdir(parents=True)
    for path, text in world.files.items():
        file = out / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    known = {"seed": seed, "files": world.known, "questions": world.questions}
    (out / "known.json").write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a world to discover.")
    parser.add_argument("--seed", default=secrets.token_hex(8), metavar="WORD", help="the same word is the same world")
    parser.add_argument("--files", type=int, default=24, help=f"how many; at least {LEAST} (default %(default)s)")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="a directory that does not exist")
    given = parser.parse_args()
    if given.files < LEAST:
        parser.error(f"--files {given.files}: expected at least {LEAST}")
    try:
        write(given.seed, given.files, given.out)
    except OSError as error:
        print(f"world.py: {error}", file=sys.stderr)
        return 1
    print(given.out / "world")
    return 0


if __name__ == "__main__":
    sys.exit(main())
