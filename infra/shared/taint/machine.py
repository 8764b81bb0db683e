"""The state of taint, and what changes it. Pure.

Work is tainted from the moment the web door served text to the cell, until a report has ticked all directives that were
open then or were added since, and the PM has written a new one after that. A directive that the PM closes himself hands
the taint on, as the run may still be under way. Text that is served while nothing is open taints what comes next.

What is guarded and was touched by tainted work stays held when the taint ends, file by file, until the PM has changed
that file on main himself: no untainted run is to land what a tainted one left."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from infra.shared.folding import folded
from infra.shared.resume import GO_ON_FROM
from infra.shared.text import counted
from infra.shared.verdicts.guarded import GUARDED, is_guarded, top_of

UNKNOWN = "an unknown origin"
MOST_ORIGINS, MOST_ORIGIN_CHARS = 20, 300
SHOWN_ORIGINS = 3
MOST_PUSHES, MOST_PUSHED_PATHS = 200, 20
MOST_PAST = 200
MOST_HELD = 500
"""Files that are held one by one; of more, what holds them at the top, and of more still, all that is guarded."""
MIND_PREFIX = "mind:"
"""Before the paths of the branch `mind`, which has its own rule (`taint/mind`)."""
MIND_ALL = "mind:*"
"""Held: all of the mind that is guarded there."""
OTHERS = "*"
"""Held: what is guarded and lies in no directory of that kind. A file of this name is not guarded."""
EVERYTHING = (*(name for name in GUARDED if name != "system.md"), "SYSTEM.md", OTHERS, MIND_ALL)
"""As main names it: by its entry there is known whether the PM has decided."""
RUN_SECONDS = 86_400.0
"""A run, resumed or not, reads the web within so long of its beginning (`cell/runner/resume`)."""


class Mark(NamedTuple):
    """How far the trace was read."""

    offset: int = 0
    length: int = 0
    digest: str = ""
    """Of the line that ends there."""
    older: str = ""
    """Which file held the older part then."""
    at: float = 0.0
    """When that line was written: whatever was served and not read yet came later."""


class Taint(NamedTuple):
    since: float
    """Seconds since the epoch."""
    origins: tuple[str, ...]
    tied: tuple[str, ...] = ()
    """The directives that were open at the last look; none: the next ones."""
    over: bool = False
    """A report has ticked them all."""
    over_at: float = 0.0
    """When; seconds since the epoch."""
    is_followed: bool = False
    """The PM has written a directive after that, which may be done by now."""


class Hold(NamedTuple):
    """A file that waits for the PM's word, or a directory with all that is in it."""

    entry: str | None
    """What main had there, in git's words; None: to be looked up."""
    origins: tuple[str, ...]


class TaintedPush(NamedTuple):
    at: float
    ref: str
    commit: str
    origins: tuple[str, ...]
    guarded: tuple[str, ...]
    taken: bool
    before: str = ""
    """What the ref was at, which other work had pushed; empty when it was new."""


class Past(NamedTuple):
    """A taint that has ended."""

    since: float
    until: float
    origins: tuple[str, ...]
    over_at: float = 0.0
    """When it was reported."""


class TaintState(NamedTuple):
    mark: Mark = Mark()
    now: Taint | None = None
    held: Mapping[str, Hold] = {}
    pushes: tuple[TaintedPush, ...] = ()
    past: tuple[Past, ...] = ()


UNTAINTED = TaintState()


def served(state: TaintState, origins: Iterable[str], open_ids: Iterable[str] | None, at: float) -> TaintState:
    """Text of these origins came to the cell. `open_ids`: of the directives that are open; None when that is not
    known."""
    found = tuple(origins)
    if not found:
        return state
    before = state.now
    tied = tuple(sorted(open_ids)) if open_ids is not None else before.tied if before and not before.over else ()
    if before is None:
        return state._replace(now=Taint(at, _joined((), found), tied))
    return state._replace(now=Taint(before.since, _joined(before.origins, found), tied))


def looked(state: TaintState, open_ids: Iterable[str] | None) -> tuple[TaintState, bool]:
    """The directives that are open now, and whether the taint is at its end: then `ended` is called."""
    now = state.now
    if now is None or open_ids is None:
        return state, False
    tied = tuple(sorted(open_ids))
    if now.over:
        is_followed = now.is_followed or bool(tied)
        return state._replace(now=now._replace(is_followed=is_followed)), is_followed
    return (state if tied == now.tied else state._replace(now=now._replace(tied=tied))), False


def reported(state: TaintState, tied: Iterable[str], open_ids: Iterable[str], at: float) -> TaintState:
    """A report was written that ticked directives; `tied` were the work's before it, and these are open now. Somebody
    may have looked in between, to whom no directive seemed to be the work's any more."""
    now = state.now
    of_work = {*tied, *now.tied} if now else set[str]()
    if now is None or now.over or not of_work or not of_work.isdisjoint(open_ids):
        return state
    return state._replace(now=now._replace(over=True, over_at=at))


def followed(state: TaintState) -> TaintState:
    """Other work begins, if only the upkeep of the mind: the next look ends a taint that is over."""
    now = state.now
    return state._replace(now=now._replace(is_followed=True)) if now and now.over else state


def reported_at(state: TaintState) -> float:
    """When work that had read the web was reported last; 0 for never. It counts also when the next work has begun."""
    return max([state.now.over_at if state.now else 0.0, *(past.over_at for past in state.past[-1:])])


def ended(state: TaintState, left: Mapping[str, str | None], at: float) -> TaintState:
    """`left`: guarded files that the work left changed somewhere, with what main has there."""
    now = state.now
    if now is None:
        return state
    past = (*state.past, Past(now.since, at, now.origins, now.over_at))[-MOST_PAST:]
    return holding(state, left, now.origins)._replace(now=None, past=past)


def holding(state: TaintState, entries: Mapping[str, str | None], origins: tuple[str, ...]) -> TaintState:
    """With these files held as well; what is held already waits as it did."""
    new = {path: Hold(entry, origins) for path, entry in entries.items() if path not in state.held}
    if len(state.held) + len(new) > MOST_HELD:
        tops = dict.fromkeys(map(top_of, (*state.held, *new)))
        held = tops if len(tops) <= MOST_HELD else EVERYTHING
        return state._replace(held={path: state.held.get(path, Hold(None, origins)) for path in held})
    return state._replace(held={**state.held, **new}) if new else state


def pushed(
    state: TaintState, pushes: Sequence[TaintedPush], entries: Mapping[str, str | None], origins: tuple[str, ...]
) -> TaintState:
    """Pushes of work tainted by these origins were judged; `entries`: the guarded files that they touch, with what main
    has there. Many pushes of other files do not push those out."""
    known = (*state.pushes, *pushes)
    undecided = [push for push in known if is_undecided(push)][-MOST_PUSHES:]
    others = [push for push in known if not is_undecided(push)][-MOST_PUSHES:]
    kept = sorted((*undecided, *others), key=lambda push: push.at)
    return holding(state, entries, origins)._replace(pushes=tuple(kept))


def is_undecided(push: TaintedPush) -> bool:
    """It lies in the repository and changes what is guarded: the PM has decided when main has it."""
    return push.taken and bool(push.guarded)


def decided(state: TaintState, entries: Mapping[str, str]) -> TaintState:
    """`entries`: what main has now where something is held. The agent cannot change that, so the PM has."""
    left = {
        path: hold if hold.entry is not None else hold._replace(entry=entries.get(path, ""))
        for path, hold in state.held.items()
        if hold.entry is None or hold.entry == entries.get(path, "")
    }
    return state if left == state.held else state._replace(held=left)


def goes_on_from_tainted(state: TaintState, directives: Mapping[str, str]) -> tuple[str, ...]:
    """The origins of earlier taints from whose runs open directives go on; `directives`: texts by id."""
    tied = state.now.tied if state.now and not state.now.over else ()
    found: list[str] = []
    for id, text in directives.items():
        match = GO_ON_FROM.match(text) if id not in tied else None
        began = _began(match[1]) if match else None
        for past in state.past if match else ():
            if began is None or (past.until >= began and past.since <= began + RUN_SECONDS):
                found += past.origins
    return tuple(dict.fromkeys(found))


_RUN = re.compile(r"(\d{4}-\d\d-\d\dT\d{6})\.\d{3}Z-")


def _began(run: str) -> float | None:
    """When a run began, by its name; None for a name that does not say."""
    import calendar  # these two cost more than all else here, and few directives name a run
    import time

    match = _RUN.match(run)
    try:
        return calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H%M%S")) if match else None
    except ValueError:
        return None


def problem_with_guarded(state: TaintState, changed: Iterable[str], brings: Collection[str] = ()) -> str:
    """Why these changes may not come onto main without the PM's word; empty when they may. `brings`: the commits that
    come with them, as far as tainted work pushed them."""
    if state.now is None and not state.held and not brings:
        return ""
    guarded = [path for path in changed if is_guarded(path)]
    if guarded and state.now:
        return f"{shown_paths(guarded)} changes, and this work has read the web ({origins_words(state.now.origins)})"
    held = _by_folded_name(state.held) if guarded else {}
    for path in guarded:
        if hold := _hold_on(held, path):
            return held_words(path, hold)
    if guarded and brings:
        origins = dict.fromkeys(origin for push in state.pushes if is_undecided(push) for origin in push.origins)
        who = f"work that had read the web ({origins_words(tuple(origins))})"
        return f"{shown_paths(guarded)} changes, and {min(brings)[:12]}, which comes with it, was pushed by {who}"
    return ""


HELD = "is held: work that had read the web"


def held_words(path: str, hold: Hold) -> str:
    return f"{shown_paths([path])} {HELD} ({origins_words(hold.origins)}) touched it"


def refusal_on_main(state: TaintState, changed: Iterable[str], branch: str, brings: Collection[str] = ()) -> str | None:
    """The same in the words that the agent reads. The mind has a rule of its own (`taint/mind`)."""
    problem = problem_with_guarded(state, changed, brings)
    if not problem:
        return None
    return (
        f"{problem}, so it comes onto main only with the PM's word; push it to a branch of its own and end your turn "
        f"with a report: the PM decides (minifram review {branch or 'BRANCH'})"
    )


def _by_folded_name(held: Mapping[str, Hold]) -> dict[str, Hold]:
    return {_folded(path): hold for path, hold in held.items()}


def held_by(state: TaintState, path: str) -> Hold | None:
    """What holds this file, as the state names it."""
    return _hold_on(_by_folded_name(state.held), path)


def _hold_on(held: Mapping[str, Hold], path: str) -> Hold | None:
    """Of a file, or of a directory above it, whatever letters they are written in."""
    parts = _folded(path).split("/")
    names = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    if parts[0].startswith(MIND_PREFIX):
        names.append(MIND_ALL)
    elif parts[0] not in GUARDED:
        names.append(OTHERS)
    return next((held[name] for name in names if name in held), None)


def origins_words(origins: Sequence[str]) -> str:
    more = len(origins) - SHOWN_ORIGINS
    return ", ".join(origins[:SHOWN_ORIGINS]) + (f" and {counted(more, 'more origin')}" if more > 0 else "")


def _joined(before: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*before, *new)))[:MOST_ORIGINS]


def _folded(path: str) -> str:
    return "/".join(map(folded, path.split("/")))


def shown_paths(paths: Sequence[str]) -> str:
    more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
    return f"{paths[0][:200]!a}{more}"
