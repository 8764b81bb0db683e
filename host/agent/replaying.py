"""A run of the agent's, by its record: played once more here, with nobody asked and nothing done; or taken up again by
the agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from host.agent import runs
from host.errors import CommandError
from host.paths import AgentPaths
from infra.cell.loop.recorded import Recorded, recorded
from infra.cell.loop.replay import Replay, problem_with_step, replay
from infra.shared.branches import MAIN
from infra.shared.exit_codes import Exit
from infra.shared.resume import GO_ON_FROM

MOST_LINES = 100_000
MOST_BYTES = 32 << 20
"""Of a transcript, all of which is kept in memory."""


def replayed(home: AgentPaths, name: str) -> tuple[str, Replay]:
    """Its whole name, and what came of it. Raises CommandError when there is no such run, or nobody can read it."""
    run = read(home, name)
    return run.run_id, replay(run)


def read(home: AgentPaths, name: str) -> Recorded:
    """Raises CommandError when there is no such run, or nobody can read it."""
    try:
        return recorded(_lines(runs.steps(home, name, MOST_BYTES)))
    except ValueError as error:
        raise CommandError(Exit.FAILURE, f"the record of run {name!r} cannot be used: {error}") from None


def take_up(home: AgentPaths, name: str, step: int | None, model: str | None, text: str) -> str:
    """The directive that has the agent take a run up behind a step, the last that can be when None. Raises
    CommandError."""
    branch, whole = runs.named(home, name)
    if branch != MAIN:
        raise CommandError(Exit.USAGE, f"run {whole!r} was on branch {branch!r}; only those on main can be taken up")
    run = read(home, f"{branch}/{whole}")
    steps = [step] if step else range(run.steps, 0, -1)
    problems = [problem_with_step(run, each) for each in steps]
    if None not in problems:
        raise CommandError(
            Exit.USAGE, next(iter(filter(None, problems)), None) or f"the model never answered in run {whole!r}"
        )
    which = f" with model {model}" if model else ""
    words = f"Go on from run {whole} after step {steps[problems.index(None)]}{which}"
    found = GO_ON_FROM.fullmatch(words)
    if not GO_ON_FROM.fullmatch(f"Go on from run {whole} after step 1"):  # an agent's file may have any name
        raise CommandError(Exit.USAGE, f"{whole!r} is no name that a run is given; nothing was told")
    if not found or found[3] != model:
        raise CommandError(Exit.USAGE, f"{model!r} is no name of a model; expected one of those in 'minifram config'")
    return f"{words}.\n\n{text}".strip()


def _lines(steps: Iterator[runs.Step]) -> Iterator[dict[str, Any]]:
    """Raises ValueError when there is no end of them."""
    for number, step in enumerate(steps):
        if number == MOST_LINES:
            raise ValueError(f"its transcript has over {MOST_LINES} lines")
        yield {"at": step.at, "kind": step.kind, **step.facts}
