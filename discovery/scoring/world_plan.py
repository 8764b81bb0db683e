"""What a world consists of, decided from its seed: every path, and what each file refers to. No contents yet.

A twin has the same plan. So the columns of a table and the keys of a record are planned here, too: a tool that was
written for one world can work on its twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from draws import Draws, Nonces

SIZES = {"small": 24, "medium": 120, "large": 1000}
"""Files."""
LEAST, MOST = 14, 20_000
Kind = Literal["readme", "table", "record", "log", "note", "puzzle", "dead end", "clue", "inventory", "reference"]
ENCODINGS = ("base64", "rot13", "reversed")
TAGS = ("red", "blue", "green", "amber")
_FILL: tuple[Kind, ...] = ("table", "log", "note", "record", "table", "dead end", "log", "note", "puzzle", "record")
_ENDINGS: dict[Kind, str] = {
    "table": "csv",
    "record": "json",
    "log": "log",
    "note": "md",
    "puzzle": "txt",
    "dead end": "txt",
    "clue": "txt",
    "reference": "md",
}


@dataclass(frozen=True)
class Planned:
    """One file. `refers` are paths as the container has them; of a dead end, one that does not exist."""

    path: str
    kind: Kind
    nonce: str = ""
    refers: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    key: str = ""
    encoding: str = ""


@dataclass(frozen=True)
class Chain:
    """A note that names a record and a key; the record names a log under that key; the log has the code."""

    start: str
    through: str
    end: str
    key: str


@dataclass(frozen=True)
class Plan:
    seed: int
    files: tuple[Planned, ...]
    tables_asked: tuple[tuple[str, str, str], ...]
    """Path, column, and the tag of the rows to be summed."""
    inventories: tuple[tuple[str, str], ...]
    """Pairs: a CSV file and a JSON file."""
    chains: tuple[Chain, ...]
    clue: str


class _Names:
    """Directories, and new files in them."""

    def __init__(self, draws: Draws, nonces: Nonces, directories: int) -> None:
        self._draws, self._nonces = draws, nonces
        self._directories = ["/world"]
        for _ in range(directories):
            above = draws.one([one for one in self._directories if one.count("/") < 5])
            self._directories.append(f"{above}/{draws.word(2)}-{nonces.new()}")

    def file(self, ending: str, below: str | None = None, hidden: bool = False) -> tuple[str, str]:
        """A path and the nonce in its last part. Never at the top: that a world has a README there is all one sees."""
        nonce = self._nonces.new()
        directory = below or self._draws.one(self._directories[1:])
        return f"{directory}/{'.' * hidden}{self._draws.word()}-{nonce}.{ending}", nonce

    def hidden_directory(self) -> str:
        return f"{self._draws.one(self._directories[1:])}/.{self._draws.word(2)}-{self._nonces.new()}"


def plan(seed: int, count: int) -> Plan:
    """The world of `count` files that this seed has; `count` is between LEAST and MOST."""
    draws = Draws(seed, count, "names")
    names = _Names(draws, Nonces(draws), directories=max(3, count // 6))
    files: list[Planned] = []
    chains = [_chain(draws, names, files) for _ in range(1 + count // 60)]
    inventories = [_inventories(draws, names, files) for _ in range(1 + count // 120)]
    clue = _clue(draws, names, files)
    tables = [_table(draws, names, files) for _ in range(2)]
    _dead_end(draws, names, files)
    for number in range(count - 1 - len(files)):
        kind = _FILL[number % len(_FILL)]
        if kind == "table":
            tables.append(_table(draws, names, files))
        elif kind == "dead end":
            _dead_end(draws, names, files)
        elif kind == "puzzle":
            _puzzle(draws, names, files, draws.one(files).path)
        else:
            _plain(draws, names, files, kind)
    hints = tuple(draws.some(sorted({file.path.rsplit("/", 1)[0] for file in files if "/." not in file.path}), 2))
    asked = tuple(
        (table.path, draws.one(table.columns), draws.one(TAGS))
        for table in draws.some(tables, min(len(tables), 2 + count // 60))
    )
    readme = Planned("/world/README.md", "readme", refers=hints)
    ordered = tuple(sorted([readme, *files], key=lambda file: file.path))
    return Plan(seed, ordered, asked, tuple(inventories), tuple(chains), clue)


def _table(draws: Draws, names: _Names, files: list[Planned]) -> Planned:
    path, nonce = names.file("csv")
    columns = tuple(draws.word(2) + str(place) for place in (1, 2))  # numbered: two words can be the same
    files.append(Planned(path, "table", nonce, columns=columns))
    return files[-1]


def _plain(draws: Draws, names: _Names, files: list[Planned], kind: Kind) -> None:
    path, nonce = names.file(_ENDINGS[kind])
    refers = (draws.one(files).path,) if kind in ("note", "record") else ()
    files.append(Planned(path, kind, nonce, refers))


def _dead_end(draws: Draws, names: _Names, files: list[Planned]) -> None:
    path, nonce = names.file("txt")
    files.append(Planned(path, "dead end", nonce, (names.file("txt")[0],)))


def _puzzle(draws: Draws, names: _Names, files: list[Planned], leads_to: str) -> None:
    path, nonce = names.file("txt")
    files.append(Planned(path, "puzzle", nonce, (leads_to,), encoding=draws.one(ENCODINGS)))


def _chain(draws: Draws, names: _Names, files: list[Planned]) -> Chain:
    key = draws.word()
    end, end_nonce = names.file("log")
    through, through_nonce = names.file("json")
    start, start_nonce = names.file("md")
    files += [
        Planned(end, "log", end_nonce, key=key),
        Planned(through, "record", through_nonce, (end,), key=key),
        Planned(start, "reference", start_nonce, (through,), key=key),
    ]
    return Chain(start, through, end, key)


def _inventories(draws: Draws, names: _Names, files: list[Planned]) -> tuple[str, str]:
    (first, first_nonce), (second, second_nonce) = names.file("csv"), names.file("json")
    files += [
        Planned(first, "inventory", first_nonce, (second,)),
        Planned(second, "inventory", second_nonce, (first,)),
    ]
    return first, second


def _clue(draws: Draws, names: _Names, files: list[Planned]) -> str:
    path, nonce = names.file("txt", below=names.hidden_directory(), hidden=True)
    files.append(Planned(path, "clue", nonce))
    _puzzle(draws, names, files, path)
    return path
