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
import stat
import sys
import time
from pathlib import Path

AT = "2026-01-31T10:42:12.345Z"
STATE = Path("/var/lib/minifram")
PLACES = (
    "/mnt/remote",
    "/mnt/remote/HEAD",
    "/mnt/remote/objects",
    "/run/minifram",
    "/run/minifram/secrets/anthropic_api_key",
    "/code",
    "/tmp",
    "/var/tmp",
    "/examination",
    "/bot",
    "/var/lib/minifram",
    "/etc/minifram/minifram.yaml",
)
TRIED = ("/x", "/etc/x", "/run/x", "/mnt/remote/config", "/mnt/remote/HEAD", "/etc/minifram/minifram.yaml", "/opt/x")
ALLOWED = ("/mnt/remote/x", "/mnt/remote/objects/x", "/mnt/remote/refs/x", "/run/minifram/x", "/tmp/x")


def main() -> int:
    how = re.search(r"stand-in: (\w+)", Path("/etc/minifram/minifram.yaml").read_text())
    behaviour = how[1] if how else "works"
    if behaviour == "refuses":
        print("seal: the canary was not rejected; the agent was not started", file=sys.stderr)
        return 5
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN if behaviour == "deaf" else lambda number, _: stopping.append(number))
    (STATE / "seen.json").write_text(json.dumps(_seen()))
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
        "status": Path("/proc/self/status").read_text(),
        "environ": dict(os.environ),
        "words": sys.argv[1:],
        "pid": os.getpid(),
        "places": {path: _place(path) for path in PLACES},
        "mounts": Path("/proc/self/mounts").read_text(),
        "written": {path: _write(path) for path in (*TRIED, *ALLOWED)},
        "interfaces": os.listdir("/sys/class/net"),
        "refs": Path("/mnt/remote/packed-refs").read_text(),
        "hosts": Path("/etc/hosts").read_text(),
        "limits": Path("/proc/self/limits").read_text(),
        "key": _key(),
        "as_agent": _as_agent(),
    }


def _place(path: str) -> dict[str, int] | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return {"mode": stat.S_IMODE(status.st_mode), "uid": status.st_uid}


def _write(path: str) -> str:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        if path.endswith("/x"):
            os.unlink(path)
    except OSError as error:
        return error.strerror or repr(error)
    return ""


def _key() -> int:
    """How long it is: the stand-in writes down no key."""
    with contextlib.suppress(FileNotFoundError):
        return len(Path("/run/minifram/secrets/anthropic_api_key").read_bytes())
    return 0


def _as_agent() -> dict[str, str]:
    """What the cell's user may do."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)
        found = {path: _write(path) for path in ("/bot/from-inside", "/mnt/remote/objects/x", "/var/lib/minifram/x")}
        closed = ("/mnt/remote/HEAD", "/run/minifram/secrets/anthropic_api_key", "/etc/minifram/minifram.yaml")
        for path in (*closed, "/etc/passwd"):
            found[f"read {path}"] = "" if os.access(path, os.R_OK) else "denied"
        os.write(writer, json.dumps(found).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return dict(json.load(pipe))


def _say(phase: str) -> None:
    boot = {"id": "0" * 32, "branch": "main", "commit": "c" * 40, "reason": "start", "started_at": AT}
    state = {
        "phase": phase,
        "since": [1.0, 1_769_856_132.0],
        "runner": {"branch": "main", "commit": "c" * 40, "boot_id": "0" * 32},
        "boots": [boot | {"outcome": "success"}],
        "strikes": _strikes(),
    }
    temporary = STATE / "watcher.json.new"
    temporary.write_text(json.dumps(state))
    temporary.replace(STATE / "watcher.json")


def _strikes() -> object:
    """What an earlier watcher remembered."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return json.loads((STATE / "watcher.json").read_text()).get("strikes", [])
    return []


if __name__ == "__main__":
    sys.exit(main())
