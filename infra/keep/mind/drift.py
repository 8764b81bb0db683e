"""Whether the files of the mind that are the PM's alone are as the PM wrote them. Pure.

The branch is compared with the last that the PM pushed: only who is not the agent may have changed them there. The
clone is compared with the branch: there the cell can write what it likes. A clone that is behind is no drift."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from infra.keep.mind.kept import Baseline, BaselineChange, MindKept
from infra.shared.mind.layout import IDENTITY

MUCH = 0.4
"""Of all words that stand in the old or the new identity, so large a share is not in both: what it says has changed."""
MOST_KEPT = 20
MOST_LINES = 30
MISSING, ODD = "", "?"
"""In the place of a hash: nothing is there; something that is no plain file of a sensible size."""


def moved(kept: MindKept, now: Baseline, agents: Sequence[str], much: float) -> MindKept:
    """The branch is at `now`. `agents`: of the files that differ, those that the agent's commits changed last; `much`:
    see `share_changed`. The PM's changes move the baseline; the agent's are drift, and move nothing."""
    before = kept.baseline
    if before is None:
        return replace(kept, baseline=now)
    differing = differences(before.files, now.files)
    if not differing or agents:
        return kept
    change = BaselineChange(now.at, now.commit, tuple(differing), much if much >= MUCH else 0.0)
    return replace(
        kept,
        baseline=now,
        earlier=(*kept.earlier, before)[-MOST_KEPT:],
        changes=(*kept.changes, change)[-MOST_KEPT:],
    )


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))


def drift_of_branch(agents: Iterable[str]) -> list[str]:
    return [f"the branch mind: {path} was last changed by the agent, and it is the PM's alone" for path in agents]


def drift_of_clone(kept: MindKept, found: Mapping[str, str]) -> list[str]:
    """`found`: what lies in the clone, as path -> hash, MISSING or ODD."""
    if kept.baseline is None:
        return []
    allowed: dict[str, set[str]] = {}
    for baseline in (kept.baseline, *kept.earlier):
        for path in kept.baseline.files.keys() | found.keys():
            allowed.setdefault(path, set()).add(baseline.files.get(path, MISSING))
    lines = list[str]()
    for path in sorted(kept.baseline.files.keys() | found.keys()):
        there = found.get(path, MISSING)
        if there in allowed[path]:
            continue
        wanted = kept.baseline.files.get(path, MISSING)
        what = {MISSING: "is missing", ODD: "is no plain file, or a very large one"}.get(there, "is another")
        if wanted == MISSING:
            what = "is not the PM's, and lies where only the PM's lie"
        elif what == "is another":
            what = f"is not as the PM wrote it (SHA-256 {there[:16]}…, expected {wanted[:16]}…)"
        lines.append(f"the agent's clone: {shown(path)} {what}")
    return lines[:MOST_LINES]


def shown(path: str) -> str:
    return path if path.isprintable() and len(path) <= 200 else ascii(path[:200])


_WORD = re.compile(r"\w+")


def share_changed(old: str, new: str) -> float:
    """Of the words of both texts, from 0 (the same ones) to 1 (none in common); order and number do not count."""
    one, other = (set(_WORD.findall(text.lower())) for text in (old, new))
    return 1 - len(one & other) / len(one | other) if one | other else 0.0


def identity_changed(before: Baseline, now: Baseline) -> bool:
    return before.files.get(IDENTITY, MISSING) != now.files.get(IDENTITY, MISSING)
