"""S06 and S08: calls that the filter lets through with some arguments: processes without namespaces of their own, and
some families of sockets. Those that it never lets through are made by their numbers (`inside.numbers`)."""

from __future__ import annotations

import os
import signal

from .calls import Attempts, syscall

ATTEMPTS = Attempts()
_refused = "EPERM"
_HIGH = 1 << 32  # the kernel does not look at this half of an int's register


# S06: namespaces

_NAMESPACES = {
    "mount": 0x0002_0000,
    "cgroup": 0x0200_0000,
    "UTS": 0x0400_0000,
    "IPC": 0x0800_0000,
    "user": 0x1000_0000,
    "PID": 0x2000_0000,
    "network": 0x4000_0000,
}
_NEWUSER = _NAMESPACES["user"]


def _cloned(flags: int) -> None:
    if syscall("clone", flags | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


for _name, _flag in (_NAMESPACES | {"user, upper half of the register set": _NEWUSER | _HIGH}).items():
    ATTEMPTS.add("S06", f"clone: {_name}", _refused)(lambda _, flag=_flag: _cloned(flag))  # type: ignore[misc]


# S08: families of sockets: one of each kind, as the profile's own test has them all

for _name, _arguments, _free in (
    ("packet", (17, 3, 0), ("ok",)),
    ("raw, internet", (2, 3, 1), ("ok",)),
    ("raw, internet 6", (10, 3, 58), ("ok",)),
    ("SCTP", (2, 1, 132), ("ok", "EPROTONOSUPPORT")),
    ("the kernel's ciphers", (38, 5, 0), ("ok", "EAFNOSUPPORT")),
    ("netlink: generic", (16, 3, 16), ("ok",)),
):
    ATTEMPTS.call("S08", f"socket: {_name}", _refused, name="socket", arguments=_arguments, free=_free)
