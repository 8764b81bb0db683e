"""A stand-in for the watcher: takes the lock, writes watcher.json, ends on SIGTERM; starts no agent.

The first argument says how it behaves; what it was started with is noted in `seen.json` beside its state."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[2]))

from infra.keep import arguments, watcher_file
from infra.keep.watcher_file import BootRecord, Pin, Trouble, WatcherFile
from infra.shared.files import write_whole
from infra.shared.repository.git import Git

AT = "2026-01-31T10:42:12.345Z"


def main() -> int:
    how, *words = sys.argv[1:]
    places = arguments.places(arguments.parser("stand-in", "").parse_args(words))
    if how == "dies":
        print("the stand-in has no wish to live", file=sys.stderr)
        return 7
    if how == "refuses":
        return 6
    stopping: list[int] = []
    if how == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    held = os.open(places.watcher_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 6
    os.ftruncate(held, 0)
    os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
    seen = {"environ": dict(os.environ), "cwd": os.getcwd(), "words": words, "session": os.getsid(0) == os.getpid()}
    key = Path(places.secrets) / "anthropic_api_key"
    seen["key"] = key.read_text().strip() if key.exists() else ""
    Path(places.var, "seen.json").write_text(json.dumps(seen))

    commit = Git(places.remote)("rev-parse", "refs/heads/main")

    pin = Pin(version="v", commit=commit, branch="main", why="it failed", at=AT)

    def say(phase: str, failures: int = 0, pinned: bool = False, level: str = watcher_file.GOOD_LEVEL) -> None:
        boot = BootRecord(
            id="0" * 32, branch="main", commit=commit, reason="start", started_at=AT, outcome="success", detail=""
        )
        troubles = (Trouble(at=AT, text=f"boot {failures} failed"),) if failures else ()
        state = WatcherFile(
            phase=phase, since=AT, branch="main", commit=commit, boots=(boot,), failures=failures, troubles=troubles
        )
        if pinned:
            state = replace(state, pins=(pin,), level=level)
        write_whole(places.watcher_state, watcher_file.encode(state))

    say(watcher_file.STARTING)
    if how == "fails":
        for failures in (1, 2, 3):
            say(watcher_file.WAITING, failures)
            time.sleep(0.1)
    elif how == "pins":
        for failures in (1, 2, 3, 4):
            say(watcher_file.WAITING, failures, pinned=failures > 2)
            time.sleep(0.1)
        say(watcher_file.RUNNING, 4, pinned=True)
    elif how == "safe":
        say(watcher_file.RUNNING, pinned=True, level=watcher_file.SAFE_LEVEL)
    elif how != "hangs":
        say(watcher_file.BOOTING)
        say(watcher_file.RUNNING)
    while not stopping:
        time.sleep(0.01)
    say(watcher_file.STOPPED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
