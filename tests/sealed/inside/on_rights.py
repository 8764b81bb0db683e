"""S05: attempts to gain rights: another uid, a capability, a program that runs as its owner."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections.abc import Callable

from .calls import Attempts, World, become, state

ATTEMPTS = Attempts()
_refused = "EPERM"
NOBODY = 4242


@ATTEMPTS.add("S05", "what it holds: no capability, no way to one, filtered", "nothing", free=("something",))
def _rights(_: World) -> str:
    with open("/proc/self/status") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    held = any(int(lines[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
    return "something" if held or lines["NoNewPrivs"] != "1" or lines["Seccomp"] != "2" else "nothing"


for _what, _act in {
    "setuid(0)": lambda: os.setuid(0),
    "setresuid(0, 0, 0)": lambda: os.setresuid(0, 0, 0),
    "setgid(0)": lambda: os.setgid(0),
    "setgroups([0])": lambda: os.setgroups([0]),
}.items():

    def _as_another(_: World, act: Callable[[], None] = _act) -> None:
        act()

    ATTEMPTS.add("S05", _what, _refused)(_as_another)


def setuid_programs() -> list[str]:
    """Every program of the image that runs as its owner."""
    found = []
    for top in ("/usr", "/opt"):  # the others are links into /usr
        for folder, _, names in os.walk(top):
            for name in names:
                mode = os.lstat(path := f"{folder}/{name}").st_mode
                if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                    found.append(path)
    return found


@ATTEMPTS.add("S05", "run every setuid and setgid program (su, passwd, mount, ...)", "no gain", free=("gain",))
def _setuid(world: World) -> str:
    if world.open:
        become(NOBODY)
    mine = {os.getuid(), os.getgid()}
    return "no gain" if all(_ids_of(path) <= mine for path in setuid_programs()) else "gain"


def _ids_of(path: str, seconds: float = 1.0) -> set[int]:
    """All user and group ids that a program has from its start until it has ended, for want of input."""
    quiet = subprocess.DEVNULL
    seen: set[int] = set()
    program = subprocess.Popen([path], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended = state(program.pid) == "Z"  # not waited for, it can still be looked at
        with open(f"/proc/{program.pid}/status") as file:
            for line in file:
                if line.startswith(("Uid:", "Gid:")):
                    seen |= {int(number) for number in line.split()[1:]}
        if ended:
            break
    program.kill()
    program.wait()
    return seen
