"""Whether what was started serves: its agent works, goes on working for a moment, and not only in safe mode."""

from __future__ import annotations

import time
from typing import NamedTuple

from host.display import Say
from host.paths import AgentPaths
from host.running import start as starting
from host.running import watcher as watching
from host.running.start import Before, Running, Started
from host.running.watcher import POLL_SECONDS
from infra.shared.watcher_file import RUNNING, SAFE_RUNG, WatcherFile


class Seen(NamedTuple):
    running: Running | None
    why: str
    """Why it does not serve; empty when it does."""


def wait_until_serving(
    home: AgentPaths, container: Started, before: Before, seconds: float, steady: float, say: Say, rung: str
) -> Seen:
    """`steady`: seconds for which the same boot has to last; `rung`: where on the ladder the agent served before."""
    began = time.monotonic()
    try:
        running = starting.wait_until_running(home, container, before, seconds, say, in_container=True)
    except starting.NotYet as trouble:
        return Seen(None, trouble.what)
    if not isinstance(running, Running):
        return Seen(None, f"the container ended with {running} before its agent worked")
    deadline = began + seconds + steady
    boot, since = "", time.monotonic()
    while True:
        now, state = time.monotonic(), _state(home)
        status = container.poll()
        if status is not None:
            return Seen(None, f"the container ended with {status} after {now - began:.0f} s")
        if state is None or state.phase != RUNNING or state.boot_id != boot:
            boot, since = state.boot_id if state else "", now
        elif now - since >= steady:
            break
        if now > deadline:
            phase = state.phase if state else "without a word"
            return Seen(None, f"the agent did not work for {steady:g} s on end in {now - began:.0f} s ({phase})")
        time.sleep(POLL_SECONDS)
    if state.rung == SAFE_RUNG != rung:
        return Seen(None, "neither main nor its last good version lives there, only safe mode")
    seconds = time.monotonic() - began
    now_running = Running(running.pid, state.branch, state.commit, state.boot_id, seconds, state.rung)
    return Seen(now_running, "")


def _state(home: AgentPaths) -> WatcherFile | None:
    try:
        return watching.glimpse(home)
    except ValueError:
        return None
