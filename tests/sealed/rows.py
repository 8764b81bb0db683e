"""The attempts to get out of a container, as rows: what was expected, what was seen, and what held.

Each attempt is made three times: in a container that is sealed as `minifram up` seals it; where the filter is to
answer, in the same with a filter whose refusals have a number of their own, which tells its answers from the kernel's;
and in a container with no fences, where the very same code must get through. A row passes when all say so."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from tests.sealed.inside.attempts import attempts
from tests.sealed.inside.calls import Attempt
from tests.sealed.support.cages import MARK, Cages

FILTERED_LINES = ("S06", "S07", "S08", "S09", "S10", "S11")
"""Those whose attempts the filter itself answers."""
PROGRAMS = Path(__file__).parent / "inside"
Rows = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Row:
    """One attempt and what came of it."""

    line: str
    attempt: str
    expected: str
    seen: str
    held_by: str  # the filter, or whatever else: the kernel's rights, a mount, a mask
    control: str  # the answer where nothing holds; a dash where that is everywhere closed to rootless containers
    passed: bool
    limit: str  # why it is not closed, where it is not


@dataclass(frozen=True, slots=True)
class Seen:
    """What the programs in the containers said."""

    agent: Rows
    keep: Rows
    marked: Rows
    open: Rows
    work: dict[str, str]
    fared: str


def look(cages: Cages) -> Seen:
    """Have everything tried: three containers, one after another."""
    python = ("python3.11", "-m")
    sealed = cages.rows(cages.sealed(*python, "inside.keep"))
    marked = cages.rows(cages.sealed(*python, "inside.keep", *FILTERED_LINES, profile="marked.json"))
    unfenced = cages.rows(cages.open(*python, "inside.attempts", "--open"))
    return Seen(
        agent=_by_name(sealed["agent"]),
        keep=_by_name(sealed["keep"]),
        marked=_by_name(marked["agent"]),
        open=_by_name(unfenced),
        work={row["work"]: row["result"] for row in sealed["seal"] + sealed["cell"]},
        fared=sealed["fared"],
    )


def _by_name(rows: list[dict[str, str]]) -> Rows:
    return {(row["id"], row["attempt"]): row["result"] for row in rows}


def judged(seen: Seen) -> list[Row]:
    """One row for each attempt, in the order of the lines."""
    return [judge(attempt, seen) for attempt in sorted(attempts(), key=lambda attempt: attempt.line)]


def judge(attempt: Attempt, seen: Seen) -> Row:
    """What came of one attempt."""
    name = (attempt.line, attempt.what)
    answer, control = seen.agent.get(name, "not tried"), seen.open.get(name, "not tried")
    filtered = answered_by_filter(seen.marked.get(name, ""), answer, control)
    keep = seen.keep.get(name, attempt.blocked[0])
    blocked = answer in attempt.blocked and keep in attempt.blocked
    shown = control in attempt.free if attempt.free else True
    return Row(
        line=attempt.line,
        attempt=attempt.what,
        expected=" ".join(attempt.blocked),
        seen=answer if keep in attempt.blocked else f"{answer}; the keep's own root: {keep}",
        held_by="nothing" if attempt.limit else "filter" if filtered else "rights",
        control=control if attempt.free else "-",
        passed=blocked and shown,
        limit=attempt.limit,
    )


def answered_by_filter(marked: str, answer: str, control: str) -> bool:
    """Only the filter fails with MARK, and only a filter sends SIGSYS; ENOSYS is its, when the kernel has the call."""
    absent = answer == marked == "ENOSYS" != control
    return marked == errno.errorcode[MARK] or answer == "SIGSYS" or absent
