"""A stand-in for the keep: process 1 and one more, both uid 0, with a secret each; and in the end, how they fared.

It does what the seal does, gives up NET_ADMIN and SETPCAP, has the agent try its attempts, then tries them itself, and
prints one JSON object: `{"cell": …, "agent": …, "keep": …, "fared": "well"}`.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import subprocess
import sys

from .calls import state

AGENT = 1000
KEPT = (5, 6, 7)  # KILL, SETGID, SETUID
# Lines that speak of the container and not of the agent's uid: the keep's own root must be held by them too.
LINES_FOR_THE_KEEP = ("S04", "S06", "S08", "S10", "S11", "S14", "S40")

_libc = ctypes.CDLL(None, use_errno=True)


def _give_up() -> None:
    """Hold KEPT and nothing else, for ever."""
    for capability in set(range(64)) - set(KEPT):
        _libc.prctl(24, capability, 0, 0, 0)  # fails past the last that the kernel knows
    mask = sum(1 << capability for capability in KEPT)
    if _libc.capset(struct.pack("Ii", 0x20080522, 0), struct.pack("6I", mask, mask, 0, 0, 0, 0)):
        raise OSError(ctypes.get_errno(), "capset")


def _rows(*words: str, as_agent: bool) -> object:
    user = AGENT if as_agent else None
    ended = subprocess.run(
        [sys.executable, "-m", *words],
        stdout=subprocess.PIPE,
        user=user,
        group=user,
        extra_groups=() if as_agent else None,
        env=os.environ | {"HOME": "/bot"},
        cwd="/bot",
    )
    if ended.returncode:
        raise SystemExit(f"{words} ended with {ended.returncode}")
    return json.loads(ended.stdout)


def main() -> None:
    received: list[int] = []
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, lambda number, _: received.append(number))
    seen: dict[str, object] = {}
    _give_up()
    door = subprocess.Popen(["sleep", "600"], env={"SECRET": "sk-of-the-keep"}, start_new_session=True)
    keep = [f"--keep={pid}" for pid in (1, door.pid)]
    seen["agent"] = _rows("inside.attempts", *keep, as_agent=True)
    seen["keep"] = _rows("inside.attempts", *keep, "--only", *LINES_FOR_THE_KEEP, as_agent=False)
    seen["cell"] = _rows("inside.work", as_agent=True)
    seen["fared"] = "well" if state(door.pid) == "S" and not received else f"door {state(door.pid)}, signals {received}"
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
