"""The attempts to get out of a container: each is made in a container that is sealed as `minifram up` seals it, by the
agent and, where the line speaks of the container, by the keep's own root; and in one with no fences, where the very
same code must get through."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.sealed.inside.calls import Attempt
from tests.sealed.support.cages import Cages

PROGRAMS = Path(__file__).parent / "inside"
Rows = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the programs in the containers said."""

    agent: Rows
    keep: Rows
    open: Rows
    work: dict[str, str]
    fared: str


def look(cages: Cages) -> Seen:
    """Have everything tried: two containers, one after another."""
    python = ("python3.11", "-m")
    sealed = cages.rows(cages.sealed(*python, "inside.keep"))
    return Seen(
        agent=_by_name(sealed["agent"]),
        keep=_by_name(sealed["keep"]),
        open=_by_name(cages.rows(cages.open(*python, "inside.attempts", "--open"))),
        work={row["work"]: row["result"] for row in sealed["cell"]},
        fared=sealed["fared"],
    )


def _by_name(rows: list[dict[str, str]]) -> Rows:
    return {(row["id"], row["attempt"]): row["result"] for row in rows}


def problem(attempt: Attempt, seen: Seen) -> str:
    """Why the attempt has not come to what it must; empty when it has."""
    name = (attempt.line, attempt.what)
    answer, control = seen.agent.get(name, "not tried"), seen.open.get(name, "not tried")
    keep = seen.keep.get(name, attempt.blocked[0])
    if {answer, keep} <= {*attempt.blocked} and (not attempt.free or control in attempt.free):
        return ""
    return f"the agent: {answer}, the keep's own root: {keep}, without fences: {control}; expected {attempt}"
