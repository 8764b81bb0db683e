"""The agent's runs, by the transcripts in its clones: its own words of what it did, read as what an agent wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from host import cell_files
from host.homes import Home
from host.trouble import Trouble
from infra.contract.exit_codes import Exit
from infra.contract.secret_shapes import redacted_value

DIRECTORY, SUFFIX = "logs/transcripts", ".jsonl"
TAIL_BYTES = 64 * 1024
PIECE_BYTES = 1 << 20
LINE_BYTES = 32 << 20
"""A longer line is passed over."""
MOST_RUNS = 10_000


class Run(NamedTuple):
    """One run, by the last lines of its transcript."""

    run: str
    branch: str
    at: str
    """Of the last line."""
    end: str
    """Empty while it goes on, or when it was cut short."""
    steps: int
    failure: str
    bytes: int


class Step(NamedTuple):
    """One line of a transcript."""

    at: str
    kind: str
    facts: dict[str, Any]


def runs(home: Home, number: int) -> list[Run]:
    """The last `number` runs, oldest first."""
    found = sorted((name, branch) for branch, name in _names(home))
    return [_run(home, branch, name) for name, branch in found[-number:]]


def steps(home: Home, run: str) -> Iterator[Step]:
    """All lines of a run. Raises Trouble when there is none, or more than one, whose name begins so."""
    found = sorted({(branch, name) for branch, name in _names(home) if name.startswith(run)})
    exact = [each for each in found if each[1] == run]
    if len(exact or found) != 1:
        problem = f"{len(found)} runs begin so" if found else "there is none"
        raise Trouble(
            Exit.NOT_FOUND, f"no run is named by {run!r}: {problem}; 'minifram runs' lists those that there are"
        )
    return _steps(home, *(exact or found)[0])


def _names(home: Home) -> Iterator[tuple[str, str]]:
    """Branch and name of each transcript."""
    left = MOST_RUNS
    for branch in cell_files.branches_with_checkouts(home.places.bot):
        for name in cell_files.files_in(home.places.bot, f"{branch}/minifram/{DIRECTORY}", left):
            if name.endswith(SUFFIX):
                left -= 1
                yield branch, name.removesuffix(SUFFIX)


def _path(branch: str, name: str) -> str:
    return f"{branch}/minifram/{DIRECTORY}/{name}{SUFFIX}"


def _run(home: Home, branch: str, name: str) -> Run:
    piece = cell_files.read_tail(home.places.bot, _path(branch, name), TAIL_BYTES)
    lines = piece.content.splitlines() if piece else []
    told = [step for step in map(_step, lines) if step]
    last = told[-1] if told else Step("", "", {})
    ended = last.facts if last.kind == "ended" else {}
    counted = [str(step.facts.get("step_id")) for step in told if step.kind == "answered"]
    done = str(ended.get("steps", counted[-1] if counted else 0))
    return Run(
        name,
        branch,
        last.at,
        str(ended.get("end", "")),
        int(done) if done.isdecimal() and len(done) < 10 else 0,
        str(ended.get("failure", "")),
        piece.end if piece else 0,
    )


def _steps(home: Home, branch: str, name: str) -> Iterator[Step]:
    for line in _lines(home, _path(branch, name)):
        step = _step(line)
        if step:
            yield step


def _lines(home: Home, path: str) -> Iterator[bytes]:
    rest, offset = b"", 0
    while (piece := cell_files.read_from(home.places.bot, path, offset, PIECE_BYTES)) and piece.end > offset:
        *whole, rest = (rest + piece.content).split(b"\n")
        yield from whole
        rest, offset = rest if len(rest) <= LINE_BYTES else b"", piece.end


def _step(line: bytes) -> Step | None:
    """None for a line that is none of a transcript's."""
    try:
        facts = redacted_value(json.loads(line.decode(errors="replace")))
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return None
    return Step(str(facts.pop("at", "")), str(facts.pop("kind", "")), facts)
