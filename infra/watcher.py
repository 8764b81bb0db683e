"""Supervise: observe → decide → act (`spec/ARCHITECTURE.md`).

Keeps one runner alive, carries out what the cell asks for by signal files, and falls back when a version fails. All
decisions are in `supervision.decide`, which is pure; `observe` sees and `act` acts."""

from __future__ import annotations

import os
import sys

from infra.keep import arguments
from infra.keep.log import log_to_file
from infra.keep.settings.check import SettingsError, read_settings
from infra.keep.supervision import memory
from infra.keep.supervision.act import Actor
from infra.keep.supervision.decide.decision import decide
from infra.keep.supervision.observe import Observer
from infra.keep.supervision.zones import Zones, plain_directories
from infra.keep.watcher_file import Phase
from infra.shared.exit_codes import Exit


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
    try:
        supervise(Actor(settings, zones, log))
    except BaseException:
        log.exception("watcher.crashed")
        raise
    finally:
        os.close(held)
    return Exit.OK


def supervise(actor: Actor) -> None:
    """The loop. What was decided is remembered before it is done: a watcher killed at any moment goes on from there."""
    observer = Observer(actor)
    state = observer.begin()
    while state.phase is not Phase.STOPPED:
        event = observer.next_event(state)
        before, at = state, actor.now()
        state, actions = decide(before, event, at)
        # Before it is remembered: a watcher that is killed in between records it twice, and never not at all.
        memory.record(actor.launcher.clones.files, actor.places, memory.boot_lines(before, event, state, at), actor.log)
        actor.remember(state, event, actions)
        for action in actions:
            actor.perform(action, state)


def _refuse(why: str, code: Exit) -> int:
    print(f"watcher: {why}", file=sys.stderr)
    return code


if __name__ == "__main__":
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    sys.exit(main(sys.argv[1:]))
