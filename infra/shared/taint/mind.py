"""What of the mind waits for the PM's word when work that has read the web touched it. In the state of taint such files
stand beside main's, with `mind:` before their paths. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from infra.shared.mind.layout import CANDIDATES, MODIFIABLE_WHEN_TAINTED, NOT_COMMITTED, OPEN_QUESTIONS, is_below
from infra.shared.requests import MAX_HELD, MAX_HELD_CHARS
from infra.shared.taint.machine import MIND_PREFIX, TaintState, held_by, held_words, origins_words, shown_paths

ALL: Final = "*"
BEGINS: Final = (OPEN_QUESTIONS, CANDIDATES)
"""Free to work that has read the web, as its run tells where they come from. What it left in the clone and nobody
pushed would be the next run's own: a question is followed, the commands of a candidate are tried."""


def is_guarded_in_mind(path: str) -> bool:
    """Whether it may steer later work. A name that is written in other letters is none that may be changed."""
    return not is_below(path, (*MODIFIABLE_WHEN_TAINTED, *NOT_COMMITTED))


def is_held_when_left(path: str) -> bool:
    """Whether it waits for the PM's word when such work left it in the clone."""
    return is_guarded_in_mind(path) or is_below(path, BEGINS)


def in_state(paths: Iterable[str]) -> list[str]:
    """The guarded ones, as the state names them."""
    return [f"{MIND_PREFIX}{path}" for path in paths if is_guarded_in_mind(path)]


def held_of_mind(state: TaintState) -> tuple[str, ...]:
    """What of it is held, as paths of the mind; of more than a reply tells of, `*` for all."""
    paths = sorted(path.removeprefix(MIND_PREFIX) for path in state.held if path.startswith(MIND_PREFIX))
    return tuple(paths) if len(paths) <= MAX_HELD and all(len(each) <= MAX_HELD_CHARS for each in paths) else (ALL,)


def may_not_change(path: str, is_tainted: bool, held: Collection[str]) -> bool:
    """Whether it waits for the PM's word, by what the keep said."""
    return is_guarded_in_mind(path) and (is_tainted or ALL in held or is_below(path, tuple(held)))


def was_left(path: str, held: Collection[str]) -> bool:
    """Whether it is what such work left that may be written otherwise."""
    return is_below(path, BEGINS) and (ALL in held or is_below(path, tuple(held)))


def problem_with_mind(state: TaintState, changed: Iterable[str]) -> str:
    """Why these changes may not come into the mind without the PM's word; empty when they may."""
    if state.now is None and not state.held:
        return ""
    guarded = [path for path in changed if is_guarded_in_mind(path)]
    if not guarded:
        return ""
    if state.now:
        return f"{shown_paths(guarded)} changes, and this work has read the web ({origins_words(state.now.origins)})"
    for path in guarded:
        if hold := held_by(state, f"{MIND_PREFIX}{path}"):
            return held_words(path, hold)
    return ""


def refusal_on_mind(state: TaintState, changed: Iterable[str]) -> str | None:
    """The same in the words that the agent reads."""
    problem = problem_with_mind(state, changed)
    if not problem:
        return None
    free = ", ".join(path if path.endswith(".md") else f"{path}/" for path in MODIFIABLE_WHEN_TAINTED)
    return (
        f"{problem}, so it changes only by the PM's own push; put it back as the branch has it, leave your version in "
        f"reflection/held/ for the PM, and push the rest (free are {free})"
    )
