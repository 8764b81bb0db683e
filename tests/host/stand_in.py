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
from infra.keep.watcher_file import BootRecord, Instant, Level, Outcome, Phase, Runner, State, Strikes, Trouble
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

    pin = Strikes(version="v", commit=commit, branch="main", count=2, pinned=True, why="it failed", at=AT)

    def say(phase: Phase, failures: int = 0, pinned: bool = False, level: Level = Level.GOOD) -> None:
        boot = BootRecord(
            boot_id="0" * 32, branch="main", commit=commit, reason="start", started_at=AT, outcome=Outcome.SUCCESS
        )
        troubles = (Trouble(at=AT, text=f"boot {failures} failed"),) if failures else ()
        runner = Runner(boot_id="0" * 32, branch="main", commit=commit, level=level if pinned else Level.MAIN)
        now, strikes = Instant(1.0, 1_769_856_132.345), (pin,) if pinned else ()
        state = State(phase=phase, since=now, runner=runner, boots=(boot,), failures=failures, troubles=troubles)
        state = replace(state, strikes=strikes)
        write_whole(places.watcher_state, watcher_file.encode(state))

    say(Phase.STARTING)
    if how == "fails":
        for failures in (1, 2, 3):
            say(Phase.WAITING, failures)
            time.sleep(0.1)
    elif how == "pins":
        for failures in (1, 2, 3, 4):
            say(Phase.WAITING, failures, pinned=failures > 2)
            time.sleep(0.1)
        say(Phase.RUNNING, 4, pinned=True)
    elif how == "safe":
        say(Phase.RUNNING, pinned=True, level=Level.SAFE)
    elif how != "hangs":
        say(Phase.BOOTING)
        say(Phase.RUNNING)
    while not stopping:
        time.sleep(0.01)
    say(Phase.STOPPED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
