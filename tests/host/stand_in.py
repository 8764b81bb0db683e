#!/usr/bin/python3.11 -I
"""A stand-in for the watcher, and as an image's entrypoint for the seal: takes the lock, says that it runs, ends on
SIGTERM; seals nothing and starts no agent. It knows the standard library alone.

How it behaves is its first argument; in a container it stands in the settings, in a comment. What it was started with,
and what it sees, is noted in `seen.json` beside its state."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

AT = "2026-01-31T10:42:12.345Z"
_, *WORDS = sys.argv
GIVEN = dict(word.removeprefix("--").partition("=")[::2] for word in WORDS)
VAR, RUN = Path(GIVEN.get("var", "/var/lib/minifram")), Path(GIVEN.get("run", "/run/minifram"))
REMOTE = GIVEN.get("remote", "/mnt/remote")


def main() -> int:
    how = WORDS.pop(0) if not WORDS[0].startswith("--") else _in_a_container()
    if how == "dies":
        print("the stand-in has no wish to live", file=sys.stderr)
        return 7
    if how == "loses":  # the race for the lock
        return 6
    if how == "refuses":
        print("seal: the canary was not rejected; the agent was not started", file=sys.stderr)
        return 5
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN if how == "deaf" else lambda number, _: stopping.append(number))
    if how != "unlocked":
        held = os.open(VAR / "watcher.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 6
        os.ftruncate(held, 0)
        os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
    (VAR / "seen.json").write_text(json.dumps(_seen()))
    if how != "unlocked":
        _live(how)
    while not stopping:
        time.sleep(0.01)
    _say("stopped")
    return 0


def _in_a_container() -> str:
    """Where the cell's user leaves a file of its own, as an agent would."""
    subprocess.run(["touch", "/bot/from-inside"], user=1000, group=1000, extra_groups=(), check=True)
    how = re.search(r"stand-in: (\w+)", Path("/etc/minifram/minifram.yaml").read_text())
    return how[1] if how else "works"


def _seen() -> dict[str, object]:
    key, refs = RUN / "secrets/anthropic_api_key", Path(REMOTE, "packed-refs")
    return {
        "environ": dict(os.environ),
        "cwd": os.getcwd(),
        "words": WORDS,
        "session": os.getsid(0) == os.getpid(),
        "pid": os.getpid(),
        "mounts": Path("/proc/self/mounts").read_text(),
        "interfaces": os.listdir("/sys/class/net"),
        "refs": refs.read_text() if refs.exists() else "",
        # How long it is: the stand-in writes down no key.
        "key": len(key.read_text().strip()) if key.exists() else 0,
    }


def _live(how: str) -> None:
    _say("starting")
    failures = {"fails": 3, "pins": 4}.get(how, 0)
    for number in range(1, failures + 1):
        _say("waiting", number, pinned=how == "pins" and number > 2)
        time.sleep(0.1)
    if how == "pins":
        _say("running", failures, pinned=True)
    elif how == "safe":
        _say("running", pinned=True, level="safe mode")
    elif how not in ("hangs", "fails"):
        _say("booting")
        _say("running")


@functools.cache
def _commit() -> str:
    """Main's at the start."""
    git = ("git", "--git-dir", REMOTE, "rev-parse", "refs/heads/main")
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


def _say(phase: str, failures: int = 0, pinned: bool = False, level: str = "last good") -> None:
    runner: dict[str, Any] = {"branch": "main", "commit": _commit(), "boot_id": "0" * 32}
    pin = {
        "version": "v",
        "commit": _commit(),
        "branch": "main",
        "count": 2,
        "pinned": True,
        "why": "it failed",
        "at": AT,
    }
    state = {
        "phase": phase,
        "since": [1.0, 1_769_856_132.345],
        "runner": runner | {"level": level if pinned else "main"},
        "boots": [runner | {"reason": "start", "started_at": AT, "outcome": "success"}],
        "failures": failures,
        "troubles": [{"at": AT, "text": f"boot {failures} failed"}] if failures else [],
        "strikes": [pin] if pinned else [],
    }
    (VAR / "watcher.json.new").write_text(json.dumps(state))
    (VAR / "watcher.json.new").replace(VAR / "watcher.json")


if __name__ == "__main__":
    sys.exit(main())
