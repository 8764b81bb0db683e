"""Versions that the watcher has pinned: which they are, whether main holds one of them now, and the PM's word that they
may be tried again. That word is a ref which the PM alone can make, and which the watcher removes when it takes it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from host.context import Context
from host.display import one_line
from host.errors import CommandError, failure
from host.paths import AgentPaths
from host.repository.checks import NOTE, OK, WARN, Result
from host.repository.open import open_repository
from host.repository.review import main_commit
from host.running.record import is_running
from host.running.watcher import POLL_SECONDS, known_state
from infra.shared import watcher_file
from infra.shared.branches import MAIN, problem_with_branch
from infra.shared.control import RETRY_REF
from infra.shared.paths import BASE_PROMPT
from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.version import body_of
from infra.shared.watcher_file import GOOD_LEVEL, SAFE_LEVEL, WatcherFile

TAKEN_SECONDS = 10.0
"""The watcher looks every second or so; it may be about to start a version."""
SHOWN = 5
STAND_INS = (GOOD_LEVEL, SAFE_LEVEL)
"""What runs where main cannot."""


class Pin(NamedTuple):
    """A version that is not started again for now."""

    branch: str
    commit: str
    at: str
    why: str
    is_main: bool
    """Main holds this version now, so that something else runs in its place."""


class Retried(NamedTuple):
    agent: str
    pins: tuple[Pin, ...]
    """What was pinned."""
    taken_back: tuple[str, ...]
    """The commits of versions that may stand in for main again."""
    asked: bool
    """False when there was neither; then nothing was changed."""
    running: bool
    taken: bool
    """The watcher has seen it, and none of these is pinned any more."""
    level: str
    """What runs now, or ran last; empty before the first start."""


def known(git: Git, state: WatcherFile, main: str) -> tuple[Pin, ...]:
    """The pins that hold now, the newest first, without those of versions that nobody could start any more. Raises
    GitError."""
    of_main = state.main.id if any(pin.version == state.main.id for pin in state.pins) else ""
    if of_main and main != state.main.commit:  # it moved while no watcher looked
        seen = resolve_commit(git, state.main.commit)
        if seen is None or body_of(git, seen, BASE_PROMPT) != body_of(git, main, BASE_PROMPT):
            of_main = ""
    of_interest = {of_main, *(good.id for good in state.known_good)} if of_main else {of_main}
    return tuple(
        Pin(pin.branch, pin.commit, pin.at, pin.why, bool(of_main) and pin.version == of_main)
        for pin in reversed(state.pins)
        if (pin.version in of_interest if pin.branch == MAIN else _is_on_offer(git, pin, main))
    )


def _is_on_offer(git: Git, pin: watcher_file.Pin, main: str) -> bool:
    """The branch still is what failed, and main does not hold it. Raises GitError."""
    tip = None if problem_with_branch(pin.branch) else resolve_commit(git, f"refs/heads/{pin.branch}")
    failed = resolve_commit(git, pin.commit) if tip else None
    if tip is None or failed is None or git.ok("merge-base", "--is-ancestor", tip, main):
        return False
    return tip == failed or not changes_beyond_page(git, failed, tip)


def taken_back(state: WatcherFile) -> tuple[str, ...]:
    """The commits of good versions that the PM rolled back from or rejected: none of them stands in for main."""
    withdrawn = {*state.withdrawn} - {*state.pardoned}
    return tuple(good.commit for good in state.known_good if good.id in withdrawn)


def shown(found: tuple[Pin, ...]) -> Iterator[str]:
    """A line for each of the newest, and one for how many more there are."""
    for pin in found[:SHOWN]:
        version = f"{one_line(pin.branch, 60)}@{one_line(pin.commit[:12])}"
        yield f"{version} since {one_line(pin.at, 24)}: {one_line(pin.why, 120)}"
    if len(found) > SHOWN:
        yield f"and {len(found) - SHOWN} more, see 'minifram status --json'"


def good_of(state: WatcherFile) -> str:
    """The commit of the last main that has shown that it can live and is not pinned; empty when there is none."""
    pinned = {state.main.id, *(pin.version for pin in state.pins)}
    known_good = (good.commit for good in state.known_good if good.id not in pinned)
    return next((commit for commit in known_good if commit not in taken_back(state)), "")


def level_of(state: WatcherFile) -> str:
    """What runs, or ran last; empty before the first start."""
    if state.branch:
        return state.level
    return state.boots[-1].level if state.boots else ""


def is_asked(home: AgentPaths) -> bool:
    """The PM has asked, and no watcher has taken it yet."""
    return os.path.lexists(f"{home.remote}/{RETRY_REF}")


def retry_pinned(home: AgentPaths, git: Git, seconds: float) -> Retried:
    """Ask that pinned versions be tried again, and wait until the watcher has taken it, if one runs. Raises
    CommandError."""
    state, main = _state(home), main_commit(git)
    found, back = known(git, state, main), taken_back(state)
    running, taken = is_running(home), False
    if found or back:
        # The watcher looks for the ref's own file: one that somebody packed is taken away first.
        update_refs(git, f"delete {RETRY_REF}")
        update_refs(git, f"update {RETRY_REF} {main}")
        was = {(pin.version, pin.at) for pin in state.pins}
        deadline = time.monotonic() + seconds
        while running and not taken and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            if not is_asked(home):
                state = _state(home)
                taken = not was & {(pin.version, pin.at) for pin in state.pins} and not taken_back(state)
            running = taken or is_running(home)
    return Retried(home.agent, found, back, bool(found or back), running, taken, level_of(state))


def check_main(context: Context, home: AgentPaths) -> Iterator[Result]:
    """For `minifram doctor`: whether main itself runs. What keeps this from being known, other checks report."""
    try:
        state = known_state(home)
        git = open_repository(home)
        found = known(git, state, main_commit(git)) if state else ()
    except (OSError, ValueError, CommandError, GitError):
        return
    if state is None:
        return
    level = level_of(state)
    stands_in = is_running(home) and level in STAND_INS
    pin = next((pin for pin in found if pin.is_main), None)
    if pin:
        good = good_of(state)
        active = f"{level} is active" if stands_in else f"{GOOD_LEVEL if good else SAFE_LEVEL} is next"
        back = f"'minifram rollback {good[:12]}' (the last known-good one), " if good else ""
        text = (
            f"at {pin.commit[:12]} it is pinned since {pin.at} because {one_line(pin.why, 160)}; {active} instead. "
            f"Push a fixed version, {back}or retry it: 'minifram retry'"
        )
        yield Result("main", WARN, text)
    elif stands_in:
        text = f"{level} is active, though main is not pinned: run 'minifram restart' to try main"
        yield Result("main", WARN if level == SAFE_LEVEL else NOTE, text)
    else:
        yield Result("main", OK, "it is not pinned")


def _state(home: AgentPaths) -> WatcherFile:
    try:
        return known_state(home) or WatcherFile()
    except ValueError as error:
        raise failure(
            f"what is pinned cannot be told: {home.places.watcher_state}: {error}; "
            "a watcher starts without it, and so with nothing pinned: 'minifram restart'"
        ) from None
