"""What the PM is to know of work that has read the web: whether the present work has, what waits for the PM's word, and
what of a branch came by it. The git door's record is read, and what the web door served since."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from infra.shared.clock import timestamp
from infra.shared.taint import state_file
from infra.shared.taint.machine import MIND_ALL, OTHERS, TaintState, origins_words, problem_with_guarded

MOST_SHOWN = 5


def of_branch(state: TaintState, commits: Collection[str], files: Collection[str]) -> tuple[str, ...]:
    """Lines on a branch with these commits and changed files: who pushed them, and what needs the PM's word."""
    pushes = [push for push in state.pushes if push.commit in commits and push.taken]
    lines = [
        f"{push.commit[:12]} was pushed at {timestamp(push.at)} by work that had read {origins_words(push.origins)}"
        for push in pushes[-MOST_SHOWN:]
    ]
    touched = {path for push in pushes for path in push.guarded}
    if problem := problem_with_guarded(state, files):
        lines.append(f"needs your word: {problem}")
    elif touched.intersection(files):
        lines.append(f"needs your word: {min(touched.intersection(files))!a} was changed by that work")
    return tuple(lines)


def now(var: str, at: float) -> Iterator[str]:
    """For the state of an agent; nothing, when there is nothing to say."""
    state = state_file.present(var, at)
    if state.now:
        yield f"tainted by {origins_words(state.now.origins)} since {timestamp(state.now.since)}"
    if state.held:
        held = sorted(state.held)
        more = f" and {len(held) - MOST_SHOWN} more" if len(held) > MOST_SHOWN else ""
        yield f"held until you change them on main: {', '.join(map(_shown, held[:MOST_SHOWN]))}{more}"


def _shown(path: str) -> str:
    words = {OTHERS: "all else that it is made of", MIND_ALL: "all of its mind that steers it"}
    return words.get(path, ascii(path))
