"""The agent's runs, by the transcripts in its clones: its own words of what it did, read as what an agent wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from host import cell_files
from host.errors import CommandError
from host.paths import AgentPaths
from infra.shared.exit_codes import Exit
from infra.shared.secret_shapes import redacted, redacted_value

DIRECTORY, SUFFIX = "logs/transcripts", ".jsonl"
TAIL_BYTES = 64 * 1024
PIECE_BYTES = 1 << 20
LINE_BYTES = 2 << 20
"""A longer line is passed over."""
ODD_LINE_BYTES = 64 << 10
"""The same of one that is no JSON any more once it is redacted as a whole."""
MOST_BYTES = 256 << 20
"""Of one run."""
MOST_DEPTH = 100
MOST_RUNS = 2000
"""Of one clone."""


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


def runs(home: AgentPaths, number: int) -> list[Run]:
    """The last `number` runs, oldest first."""
    found = sorted((name, branch) for branch, name in _names(home))
    return [_run(home, branch, name) for name, branch in found[-number:]]


def steps(home: AgentPaths, run: str, most_bytes: int = MOST_BYTES) -> Iterator[Step]:
    """All lines of a run, named as in `named`; those within its first `most_bytes`."""
    return _steps(home, *named(home, run), most_bytes)


def named(home: AgentPaths, run: str) -> tuple[str, str]:
    """Branch and whole name of a run, by the beginning of its name, or by its branch and that.

    Raises CommandError when there is none, or more than one."""
    every = sorted(set(_names(home)))
    found = [each for each in every if "/".join(each).startswith(run)] or [
        each for each in every if each[1].startswith(run)
    ]
    exact = [each for each in found if run in (each[1], "/".join(each))]
    if len(exact or found) != 1:
        problem = f"{len(exact or found)} runs begin so, name it as BRANCH/RUN" if found else "there is none"
        raise CommandError(
            Exit.NOT_FOUND, f"no run is named by {run!r}: {problem}; 'minifram runs' lists those that there are"
        )
    return (exact or found)[0]


def _names(home: AgentPaths) -> Iterator[tuple[str, str]]:
    """Branch and name of each transcript."""
    for branch in cell_files.branches_with_checkouts(home.places.bot):
        for name in cell_files.files_in(home.places.bot, f"{branch}/minifram/{DIRECTORY}", MOST_RUNS):
            if name.endswith(SUFFIX):
                yield branch, name.removesuffix(SUFFIX)


def _path(branch: str, name: str) -> str:
    return f"{branch}/minifram/{DIRECTORY}/{name}{SUFFIX}"


def _run(home: AgentPaths, branch: str, name: str) -> Run:
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


def _steps(home: AgentPaths, branch: str, name: str, most_bytes: int) -> Iterator[Step]:
    for line in _lines(home, _path(branch, name), most_bytes):
        step = _step(line)
        if step:
            yield step


def _lines(home: AgentPaths, path: str, most_bytes: int) -> Iterator[bytes]:
    """Up to where the file ends now: it may be growing."""
    last = cell_files.read_tail(home.places.bot, path, 0)
    end = min(last.end, most_bytes) if last else 0
    rest, offset, too_long = b"", 0, False
    while offset < end and (piece := cell_files.read_from(home.places.bot, path, offset, PIECE_BYTES)):
        if piece.end <= offset:
            return
        *whole, rest = (rest + piece.content).split(b"\n")
        yield from whole[too_long:]
        too_long = (too_long and not whole) or len(rest) > LINE_BYTES
        rest, offset = b"" if too_long else rest, piece.end


def _step(line: bytes) -> Step | None:
    """None for a line that is none of a transcript's. It is redacted as a whole: text by text takes too long where
    somebody wrote a million of them."""
    text = line.decode(errors="replace")
    try:
        facts = json.loads(redacted(text))
    except RecursionError:
        return None
    except ValueError:  # a secret over the ends of texts, or no JSON at all
        if len(line) > ODD_LINE_BYTES:
            return None
        try:
            facts = redacted_value(json.loads(text))
        except (ValueError, RecursionError):
            return None
    if not isinstance(facts, dict) or _is_deep(facts):
        return None
    return Step(str(facts.pop("at", "")), str(facts.pop("kind", "")), facts)


def _is_deep(value: Any) -> bool:
    """Nested further than anybody's arguments: it could not be shown."""
    level = [value]
    for _ in range(MOST_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        if not inner:
            return False
        level = [item for items in inner for item in items]
    return True
