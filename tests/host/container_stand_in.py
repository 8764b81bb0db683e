#!/usr/bin/python3.11 -I
"""A stand-in for the seal and the watcher, as the image's entrypoint: seals nothing, notes what it sees, takes the
lock, says that it runs, ends on SIGTERM. How it behaves stands in the settings, in a comment."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

AT = "2026-01-31T10:42:12.345Z"
STATE = Path("/var/lib/minifram")


def main() -> int:
    how = re.search(r"stand-in: (\w+)", Path("/etc/minifram/minifram.yaml").read_text())
    behaviour = how[1] if how else "works"
    if behaviour == "refuses":
        print("seal: the canary was not rejected; the agent was not started", file=sys.stderr)
        return 5
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else lambda number, _: stopping.append(number))
    (STATE / "seen.json").write_text(json.dumps(_seen()))
    subprocess.run(["touch", "/bot/from-inside"], user=1000, group=1000, extra_groups=(), check=True)
    if behaviour != "unlocked":
        held = os.open(STATE / "watcher.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.pwrite(held, b"1\n", 0)
        _say("running" if behaviour != "hangs" else "booting")
    while not stopping:
        time.sleep(0.01)
    _say("stopped")
    return 0


def _seen() -> dict[str, object]:
    return {
        "environ": dict(os.environ),
        "pid": os.getpid(),
        "mounts": Path("/proc/self/mounts").read_text(),
        "interfaces": os.listdir("/sys/class/net"),
        "refs": Path("/mnt/remote/packed-refs").read_text(),
        "key": _key(),
    }


def _key() -> int:
    """How long it is: the stand-in writes down no key."""
    with contextlib.suppress(FileNotFoundError):
        return len(Path("/run/minifram/secrets/anthropic_api_key").read_bytes())
    return 0


def _say(phase: str) -> None:
    boot = {"id": "0" * 32, "branch": "main", "commit": "c" * 40, "reason": "start", "started_at": AT}
    state = {
        "phase": phase,
        "since": [1.0, 1_769_856_132.0],
        "runner": {"branch": "main", "commit": "c" * 40, "boot_id": "0" * 32},
        "boots": [boot | {"outcome": "success"}],
    }
    temporary = STATE / "watcher.json.new"
    temporary.write_text(json.dumps(state))
    temporary.replace(STATE / "watcher.json")


if __name__ == "__main__":
    sys.exit(main())
