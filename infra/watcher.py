"""Supervise: observe → decide → act (`spec/ARCHITECTURE.md`).

Keeps one runner alive, carries out what the cell asks for by signal files, and falls back when a version fails. All
decisions are in `supervision.decide`, which is pure; `observe` sees and `act` acts."""

from __future__ import annotations

import os
import sys

from infra.keep import arguments
from infra.keep.settings_file import SettingsError, read_settings
from infra.keep.supervision import memory
from infra.keep.supervision.act import Actor
from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.decide.state import Phase, State
from infra.keep.supervision.observe import Observer
from infra.keep.supervision.parts import Parts, now
from infra.keep.supervision.zones import Zones, plain_directories
from infra.shared.exit_codes import Exit
from infra.shared.log import log_to_file


def main(argv: list[str]) -> int:
    given = arguments.parser("watcher", "Supervise one agent until asked to stop (SIGTERM).").parse_args(argv)
    places = arguments.places(given)
    return watch(plain_directories(given.settings, places))


def watch(zones: Zones) -> int:
    """The watcher of one agent, to its end; gives the exit code."""
    places = zones.places
    try:
        settings = read_settings(zones.settings_path)
        for directory in (places.bot, places.run, places.var):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        held = memory.lock(places.watcher_lock)
        log = log_to_file("watcher", places.watcher_log, settings.limits.log_bytes)
    except SettingsError as error:
        return _refuse(str(error), Exit.USAGE)
    except memory.AlreadyRunning as error:
        return _refuse(str(error), Exit.CONFLICT)
    except OSError as error:
        return _refuse(f"the watcher cannot use its directories: {error}", Exit.FAILURE)
    parts = Parts(settings, zones, log)
    parts.wake.on_stop_signals()
    try:
        state = supervise(parts)
    except BaseException:
        log.exception("watcher.crashed")
        raise
    finally:
        os.close(held)
    return Exit.DENIED if state.broken else Exit.OK


def supervise(parts: Parts) -> State:
    """The loop. What was decided is remembered before it is done: a watcher killed at any moment goes on from there."""
    actor = Actor(parts)
    observer = Observer(parts, actor)
    state = observer.begin()
    while state.phase is not Phase.STOPPED:
        event = observer.next_event(state)
        before, at = state, now()
        state, actions = decide(before, event, at)
        # Before it is remembered: a watcher that is killed in between records it twice, and never not at all.
        parts.attempts.record(before, event, state, at)
        parts.remember(state, actions)
        for action in actions:
            actor.perform(action, state)
    return state


def _refuse(why: str, code: Exit) -> int:
    print(f"watcher: {why}", file=sys.stderr)
    return code


if __name__ == "__main__":
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    sys.exit(main(sys.argv[1:]))
