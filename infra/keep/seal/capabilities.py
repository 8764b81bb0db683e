"""The capabilities of this process: what it has, and giving them up for ever (capabilities(7)).

By system calls of its own, because there is nothing to execute in between: what is dropped here is dropped in
the very process that goes on as the watcher."""

from __future__ import annotations

import ctypes
import os
from enum import IntEnum
from typing import Any, NamedTuple


class Capability(IntEnum):
    """Those that the keep uses; numbers of linux/capability.h."""

    KILL = 5
    SETGID = 6
    SETUID = 7
    SETPCAP = 8
    NET_ADMIN = 12


FOR_SEALING = frozenset(Capability)
"""What the container starts with (`spec/ARCHITECTURE.md`)."""
FOR_WATCHING = frozenset({Capability.KILL, Capability.SETGID, Capability.SETUID})
"""What is left: to be the cell where its files are touched, and to end its processes."""

_PR_SET_SECUREBITS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 28, 24, 47, 4
_NOROOT, _NO_AMBIENT_RAISE = 1 << 0, 1 << 6
_SECUREBITS = (_NOROOT | _NOROOT << 1) | (_NO_AMBIENT_RAISE | _NO_AMBIENT_RAISE << 1)
"""Uid 0 alone gives no program any capability, and both bits are locked."""
_VERSION_3 = 0x20080522
LAST_KNOWN = 63


class Held(NamedTuple):
    """The capability sets of a process, as bits."""

    inheritable: int
    permitted: int
    effective: int
    bounding: int
    ambient: int
    no_new_privileges: bool
    seccomp: bool
    """A filter is in force."""


def parse_status(text: str) -> Held:
    """What `/proc/<pid>/status` says. Raises LookupError when it does not say all of it, ValueError."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    inheritable, permitted, effective, bounding, ambient = (
        int(fields[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    )
    is_bound, is_filtered = int(fields["NoNewPrivs"]) == 1, int(fields["Seccomp"]) == 2
    return Held(inheritable, permitted, effective, bounding, ambient, is_bound, is_filtered)


def held() -> Held:
    """This process's. Raises OSError, LookupError, ValueError."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return parse_status(file.read())


def bits(capabilities: frozenset[Capability]) -> int:
    return sum(1 << capability for capability in capabilities)


def names(found: int) -> str:
    """A set in words, for people."""
    known = {capability.value: capability.name for capability in Capability}
    return ", ".join(known.get(bit, f"capability {bit}") for bit in range(64) if found >> bit & 1) or "none"


def keep_only(wanted: frozenset[Capability]) -> None:
    """Give up all others, for this process and for everything that it will ever start. Raises OSError.

    What it starts as uid 0 begins with none at all."""
    libc = ctypes.CDLL(None, use_errno=True)
    _call(libc.prctl, _PR_SET_SECUREBITS, _SECUREBITS, 0, 0, 0)
    _call(libc.prctl, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    bounding = held().bounding
    for bit in range(LAST_KNOWN + 1):
        if bounding >> bit & 1 and not bits(wanted) >> bit & 1:
            _call(libc.prctl, _PR_CAPBSET_DROP, bit, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    # Effective, permitted, inheritable: the low 32 bits of each, then the high ones.
    data = (ctypes.c_uint32 * 6)(bits(wanted), bits(wanted), 0, 0, 0, 0)
    _call(libc.capset, header, data)


def _call(function: Any, *words: object) -> None:
    if function(*words) != 0:
        raise OSError(ctypes.get_errno(), f"{function.__name__}: {os.strerror(ctypes.get_errno())}")
