"""The agent's runs, by the transcripts in its clones, which are its own words and read as such: shown, replayed with
nobody asked and nothing done, and resumed by a directive."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from host.display import one_line
from host.errors import conflict, failure, not_found, usage
from host.paths import AgentPaths
from infra.shared.clones import with_clones
from infra.shared.paths import TRANSCRIPTS
from infra.shared.safe_files import Below, Entry
from infra.shared.secret_shapes import redacted, redacted_value, without_named

if TYPE_CHECKING:
    from infra.cell.loop.recorded import Recorded
    from infra.cell.loop.replay import Replay

SUFFIX = ".jsonl"
PIECE_BYTES = 1 << 20
LINE_BYTES = 2 << 20
"""A longer line is passed over."""
ODD_LINE_BYTES = 64 << 10
"""The same of one that is not JSON any more once it is redacted as a whole."""
MOST_BYTES = 256 << 20
"""Of one run."""
MOST_DEPTH = 100
MOST_RUNS = 2000
"""Of one clone."""
MOST_LINES = 100_000
MOST_NAMED = 3
"""Of several runs that a name could mean."""
REPLAYED_BYTES = 32 << 20
"""Of a transcript, all of which is kept in memory."""


class Step(NamedTuple):
    """One line of a transcript."""

    at: str
    kind: str
    facts: dict[str, Any]


def steps_of(home: AgentPaths, run: str, most_bytes: int = MOST_BYTES) -> Iterator[Step]:
    """All lines of a run, named as in `named`; those within its first `most_bytes`."""
    path = path_of(*named(home, run))
    return filter(None, map(step_of, lines_of(home, path, most_bytes)))


def named(home: AgentPaths, run: str) -> tuple[str, str]:
    """Branch and whole name of a run, by the beginning of its name, or by its branch and that.

    Raises CommandError when there is none, or more than one."""
    every = sorted(set(names_of(home)))
    found = [each for each in every if "/".join(each).startswith(run)] or [
        each for each in every if each[1].startswith(run)
    ]
    exact = [each for each in found if run in (each[1], "/".join(each))]
    found = exact or found
    if len(found) > 1:
        which = ", ".join("/".join(each) for each in found[-MOST_NAMED:]) + (" …" if len(found) > MOST_NAMED else "")
        raise conflict(
            f"{len(found)} runs begin with {run!r}; give more of the name, or BRANCH/RUN: {one_line(which, 400)}"
        )
    if not found:
        raise not_found(f"no such run: {run!r}; 'minifram runs' lists them")
    return found[0]


def names_of(home: AgentPaths) -> Iterator[tuple[str, str]]:
    """Branch and name of each transcript."""
    bot = Below(home.places.bot)
    for branch in with_clones(bot)[0]:
        for entry in bot.walk(f"{branch}/minifram/{TRANSCRIPTS}", depth=0, most=MOST_RUNS, enter=lambda _: False):
            if isinstance(entry, Entry) and entry.path.endswith(SUFFIX) and stat.S_ISREG(entry.status.st_mode):
                yield branch, os.path.basename(entry.path).removesuffix(SUFFIX)


def path_of(branch: str, name: str) -> str:
    return f"{branch}/minifram/{TRANSCRIPTS}/{name}{SUFFIX}"


def lines_of(home: AgentPaths, path: str, most_bytes: int) -> Iterator[bytes]:
    """Up to where the file ends now: it may be growing."""
    bot = Below(home.places.bot)
    last = bot.piece(path, 0)
    end = min(last.end, most_bytes) if last else 0
    rest, offset, too_long = b"", 0, False
    while offset < end and (piece := bot.piece(path, PIECE_BYTES, offset)):
        if piece.end <= offset:
            return
        *whole, rest = (rest + piece.content).split(b"\n")
        yield from whole[too_long:]
        too_long = (too_long and not whole) or len(rest) > LINE_BYTES
        rest, offset = b"" if too_long else rest, piece.end


def step_of(line: bytes) -> Step | None:
    """None for a line that is none of a transcript's. It is redacted as a whole: text by text takes too long where
    somebody wrote a million of them."""
    text = line.decode(errors="replace")
    try:
        facts = without_named(json.loads(redacted(text)))
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


def states_of(step: Step) -> list[str]:
    """Which the run entered since the line before."""
    states = step.facts.get("states")
    return list(map(str, states)) if isinstance(states, list) else []


def _is_deep(value: Any) -> bool:
    """Nested further than anybody's arguments: it could not be shown."""
    level = [value]
    for _ in range(MOST_DEPTH):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        if not inner:
            return False
        level = [item for items in inner for item in items]
    return True


def replayed(home: AgentPaths, name: str) -> tuple[str, Replay]:
    """Its whole name and the result. Raises CommandError for a run that is missing or cannot be read."""
    from infra.cell.loop.replay import replay

    run = _read(home, name)
    return run.run_id, replay(run)


def _read(home: AgentPaths, name: str) -> Recorded:
    """Raises CommandError for a run that is missing or cannot be read."""
    from infra.cell.loop.recorded import recorded

    try:
        return recorded(_recorded(steps_of(home, name, REPLAYED_BYTES)))
    except ValueError as error:
        raise failure(f"the record of run {name!r} cannot be used: {error}") from None


def resuming(home: AgentPaths, name: str, step: int | None, model: str | None, text: str) -> str:
    """The directive that has the agent resume a run behind a step, the last that can be when None. Raises
    CommandError."""
    from infra.cell.loop.replay import problem_with_step
    from infra.shared.branches import MAIN
    from infra.shared.resume import GO_ON_FROM

    branch, whole = named(home, name)
    if branch != MAIN:
        raise usage(f"run {whole!r} was on branch {branch!r}; only those on main can be resumed")
    run = _read(home, f"{branch}/{whole}")
    steps = [step] if step else range(run.steps, 0, -1)
    problems = [problem_with_step(run, each) for each in steps]
    if None not in problems:
        raise usage(next(iter(filter(None, problems)), None) or f"the model never answered in run {whole!r}")
    which = f" with model {model}" if model else ""
    words = f"Go on from run {whole} after step {steps[problems.index(None)]}{which}"
    found = GO_ON_FROM.fullmatch(words)
    if not GO_ON_FROM.fullmatch(f"Go on from run {whole} after step 1"):  # an agent's file may have any name
        raise usage(f"{whole!r} is not a name that a run is given; nothing was told")
    if not found or found[3] != model:
        raise usage(f"{model!r} is not a name of a model; expected one of those in 'minifram config'")
    return f"{words}.\n\n{text}".strip()


def _recorded(steps: Iterator[Step]) -> Iterator[dict[str, Any]]:
    """Raises ValueError when there is no end of them."""
    for number, step in enumerate(steps):
        if number == MOST_LINES:
            raise ValueError(f"its transcript has over {MOST_LINES} lines")
        yield {"at": step.at, "kind": step.kind, **step.facts}
