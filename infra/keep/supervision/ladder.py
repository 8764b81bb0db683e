"""Who leads when no branch was asked for: main; the last good main while main's version is pinned; and when none of
those can live, the image's own runner, in safe mode. Pure choices over what the watcher remembers.

A version is what a runner is made of, whatever the page says: reports move main and change no version. Bad versions
are pinned, and never led again until main holds another or the PM asks for it. When safe mode itself cannot live, the
versions are not to blame: what was pinned since somebody last lived is pardoned."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from infra.keep.supervision.states import Instant, Launch, State
from infra.shared.active import Level, Runner
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.watcher_file import LIVED, Pin, Version, VersionFailures

KNOWN_GOOD_KEPT = 5
FAILURES_KEPT, PINS_KEPT = 50, 50
STABLE_SECONDS = 6 * 3600.0
"""Who has lived so long has made up for earlier deaths; a shorter life has not: dying every hour is a way to be bad."""


def lead(state: State, reason: str) -> Launch:
    """The best that main has to offer."""
    main = state.main
    pin = pin_of(state, main.id)
    if pin is None:
        return Launch(MAIN, reason, Level.MAIN, main.commit, launched_for=launched_for(state, Level.MAIN))
    why = f"{reason}; main's version is pinned since it failed at {pin.at}: {pin.why}"
    for good in state.known_good:
        if good.id != main.id and pin_of(state, good.id) is None and not is_withdrawn(state, good.id):
            return Launch(MAIN, why, Level.GOOD, good.commit, main.commit, launched_for(state, Level.GOOD))
    return Launch(MAIN, why, Level.SAFE, main.commit, main.commit, launched_for(state, Level.SAFE))


def launched_for(state: State, level: Level) -> str:
    """What of main a runner on this level is launched for. Who stands in makes way for whatever main's version becomes;
    everybody else reads SYSTEM.md anew for each unit of work, and makes way for another body alone."""
    return state.main.id if level in (Level.GOOD, Level.SAFE) else state.main.body


def is_outdated(state: State, runner: Runner) -> bool:
    """Main holds something else than this runner was launched for, or the PM has withdrawn what stands in for it."""
    now = launched_for(state, runner.level)
    withdrawn = runner.level is Level.GOOD and is_withdrawn(state, runner.version)
    return withdrawn or bool(runner.launched_for and now and runner.launched_for != now)


def is_withdrawn(state: State, version: str) -> bool:
    """The PM has rolled back from it, or rejected it, and has not allowed it again since."""
    return version in state.withdrawn and version not in state.pardoned


def at_main(state: State, main: Version, withdrawn: tuple[str, ...] | None) -> State:
    """Main was looked at. Another version than the one that failed begins with a fresh count, and what is pinned of
    main is pinned only until main holds another version."""
    if withdrawn is not None:
        pardoned = tuple(version for version in state.pardoned if version in withdrawn)
        state = replace(state, withdrawn=withdrawn, pardoned=pardoned)
    if main.id != state.main.id:
        known_good = {good.id for good in state.known_good} - {main.id}
        pins = tuple(pin for pin in state.pins if pin.branch != MAIN or pin.version in known_good)
        state = replace(state, failures=0, pins=pins)
    return replace(state, main=main)


def pin_of(state: State, version: str) -> Pin | None:
    return next((pin for pin in state.pins if version and pin.version == version), None)


def tries(state: State, runner: Runner) -> int:
    """How many failures a version is allowed on this level: one that was seen to live gets one more."""
    lived = any(good.id == runner.version for good in state.known_good)
    lived = lived or any(boot.version == runner.version and boot.outcome in LIVED for boot in state.boots)
    return (1 if runner.level is Level.BRANCH else 2) + lived


class Judged(NamedTuple):
    state: State
    pinned: bool


def blamed(state: State, runner: Runner, why: str, now: Instant) -> Judged:
    """One more failure of the runner's version, and its pin if that was one too many."""
    if runner.level is Level.SAFE:
        return Judged(_pardoned(state), False)
    if not runner.version or pin_of(state, runner.version):
        return Judged(state, False)
    count = next((one.count for one in state.version_failures if one.version == runner.version), 0) + 1
    others = tuple(one for one in state.version_failures if one.version != runner.version)
    if count < tries(state, runner):
        mine = VersionFailures(version=runner.version, count=count)
        return Judged(replace(state, version_failures=(*others, mine)[-FAILURES_KEPT:]), False)
    pin = Pin(version=runner.version, commit=runner.commit, branch=runner.branch, why=why, at=timestamp(now.wall))
    return Judged(replace(state, version_failures=others, pins=_kept((*state.pins, pin))), True)


def _kept(pins: tuple[Pin, ...]) -> tuple[Pin, ...]:
    """Branches come and go; that main is pinned must not be forgotten for them."""
    if len(pins) <= PINS_KEPT:
        return pins
    oldest = next((pin for pin in pins if pin.branch != MAIN), pins[0])
    return tuple(pin for pin in pins if pin is not oldest)


def _pardoned(state: State) -> State:
    """Nobody could live: no version is to blame for what happened since somebody last did."""
    kept = tuple(pin for pin in state.pins if pin.proven)
    return replace(state, pins=kept, version_failures=(), safe_mode_failures=state.safe_mode_failures + 1)


def lived(state: State, runner: Runner) -> State:
    """This runner has served its probation: its version is good, and who was pinned before it was rightly so."""
    pins = tuple(replace(pin, proven=True) for pin in state.pins)
    known_good = state.known_good
    if runner.level in (Level.MAIN, Level.GOOD) and runner.version:
        good = Version(commit=runner.commit, id=runner.version)
        known_good = (good, *(old for old in known_good if old.id != good.id))[:KNOWN_GOOD_KEPT]
    return replace(state, pins=pins, known_good=known_good, safe_mode_failures=0)


def stable(state: State, runner: Runner) -> State:
    """This runner has lived for long: its version's earlier deaths count no more."""
    return replace(
        state, version_failures=tuple(one for one in state.version_failures if one.version != runner.version)
    )


def unpinned(state: State) -> State:
    """The PM says that everything may be tried again."""
    return replace(state, pins=(), version_failures=(), pardoned=state.withdrawn, safe_mode_failures=0, failures=0)
