"""The proof that the egress rules hold, without a packet that leaves: a private address on the loopback device is
connected to from 127.0.0.1 (and one of IPv6 from ::1).

Only the rules reject such a connection. Without them the kernel refuses it, because nobody listens; without the
address there was no seal. The three answers differ. What follows from a proof that fails is the caller's to decide."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import struct
import subprocess
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

PORT = 9
"""Below 1024, so that nobody in the cell can listen there; `discard`, should anybody ask."""
ANSWER_SECONDS = 3.5
"""A rejection takes a tenth of a millisecond. Should it be lost under load, TCP asks again after 1 and 3 s."""


class Canary(NamedTuple):
    address: str
    prefix: int
    speaker: str
    """Where the connection comes from: an address that no packet may leave the machine with."""
    family: socket.AddressFamily
    tells_errors: tuple[int, int]
    """The socket option that has ICMP errors reported, not only acted on."""
    rejection: tuple[int, int, int]
    """What icmpx admin-prohibited is reported as: origin, type, code."""
    port: int = PORT


V4 = Canary("10.255.255.254", 32, "127.0.0.1", socket.AF_INET, (socket.IPPROTO_IP, 11), (2, 3, 13))
V6 = Canary("fd00:ffff::1", 128, "::1", socket.AF_INET6, (socket.IPPROTO_IPV6, 25), (3, 1, 1))


_HOST_UNREACHABLE = {socket.AF_INET: (2, 3, 1), socket.AF_INET6: (3, 1, 3)}
"""What icmpx host-unreachable is reported as: by which `door.nft` refuses, and no other rule."""
RESOLVER = Canary(
    "127.0.0.1", 8, "127.0.0.1", socket.AF_INET, V4.tells_errors, _HOST_UNREACHABLE[socket.AF_INET], port=53
)
"""Nobody's but the keep's and the web door's to ask, where the cell reaches the doors alone."""


def walled(one: Canary) -> Canary:
    """The same, as it answers somebody who reaches the doors alone."""
    return one._replace(rejection=_HOST_UNREACHABLE[one.family])


class CanaryVerdict(Enum):
    """How the canary's connection ended."""

    REJECTED = "rejected by the rules"
    NOT_REJECTED = "not rejected"
    NO_CANARY = "no canary"
    NO_ANSWER = "no answer"


class Proof(NamedTuple):
    verdict: CanaryVerdict
    detail: str
    """What was found, in words; empty when it was rejected."""

    @property
    def holds(self) -> bool:
        return self.verdict is CanaryVerdict.REJECTED


class CanaryError(Exception):
    """A canary cannot be put on the loopback device."""


def place(canaries: Sequence[Canary]) -> None:
    """Put the canaries on lo, and lo up; needs CAP_NET_ADMIN. Raises CanaryError."""
    commands = [["link", "set", "lo", "up"]]
    for one in canaries:
        # nodad: an IPv6 address can otherwise not be spoken to for a moment, even here.
        wait = ["nodad"] if one.family == socket.AF_INET6 else []
        commands.append(["address", "replace", f"{one.address}/{one.prefix}", "dev", "lo", *wait])
    for command in commands:
        words = ["ip", *command]
        try:
            done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CanaryError(f"{' '.join(words)} failed ({error}); the package iproute2 has ip") from None
        if done.returncode != 0:
            raise CanaryError(f"{' '.join(words)} failed: {done.stderr.strip()[:500]}")


def canaries() -> tuple[Canary, ...]:
    """Those that this network namespace can have: IPv6 may be switched off in it, or missing in the kernel."""
    try:
        with open("/proc/sys/net/ipv6/conf/lo/disable_ipv6", encoding="ascii") as file:
            return (V4,) if file.read().strip() == "1" else (V4, V6)
    except FileNotFoundError:
        return (V4,)


def prove(one: Canary = V4, answer_seconds: float = ANSWER_SECONDS) -> Proof:
    """Ask the canary. Raises OSError only when there is no socket to ask with."""
    if not _is_here(one):
        return Proof(CanaryVerdict.NO_CANARY, f"{one.address} is not an address of this network namespace")
    with socket.socket(one.family, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        caller.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        caller.setsockopt(*one.tells_errors, 1)
        try:
            caller.bind((one.speaker, 0))
            caller.connect((one.address, one.port))
        except BlockingIOError:
            return _judged(one, caller, answer_seconds)
        except OSError as error:
            # All ports taken, which is the cell's doing, is not the same as no way to the canary.
            verdict = CanaryVerdict.NO_ANSWER if error.errno == errno.EADDRNOTAVAIL else CanaryVerdict.NO_CANARY
            return Proof(verdict, f"a connection to {one.address} could not be tried: {error.strerror}")
    return Proof(CanaryVerdict.NOT_REJECTED, f"a connection to {one.address} was accepted; expected a rejection")


_IP_BIND_ADDRESS_NO_PORT = 24
"""ip(7): the port is chosen at connect, where one that another connection has will do as well."""


def _judged(one: Canary, caller: socket.socket, answer_seconds: float) -> Proof:
    waiting = select.poll()
    waiting.register(caller, select.POLLOUT)
    if not waiting.poll(answer_seconds * 1000):
        return Proof(CanaryVerdict.NO_ANSWER, f"a connection to {one.address} got no answer in {answer_seconds:g} s")
    # What the kernel was told, word for word: a blocking connect would learn of an IPv6 rejection a second later, and
    # could not tell it from other errors.
    if one.rejection in _told(caller):
        return Proof(CanaryVerdict.REJECTED, "")
    status = caller.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if status in (0, errno.ECONNREFUSED):
        return Proof(
            CanaryVerdict.NOT_REJECTED,
            f"a connection to {one.address} reached the kernel; the egress rules are not in force",
        )
    return Proof(CanaryVerdict.NO_ANSWER, f"a connection to {one.address} ended unexpectedly: {os.strerror(status)}")


def _told(caller: socket.socket) -> list[tuple[int, int, int]]:
    """Origin, type and code of each error that came for this socket (ip(7), IP_RECVERR)."""
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            _, notes, _, _ = caller.recvmsg(1, 512, socket.MSG_ERRQUEUE)
            found += [struct.unpack_from("=4xBBB", data) for _, _, data in notes if len(data) >= 8]
    return found


def _is_here(one: Canary) -> bool:
    """Whether the address is ours, found without a packet: only then can a socket be bound to it."""
    with socket.socket(one.family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((one.address, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True
