"""The proof that the egress rules hold, without a packet that leaves: an address of the loopback device connects to
itself, which nothing but the rules rejects. Without rules the kernel refuses it, because nobody listens; without a seal
there is no such address to connect from."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence

from infra.shared.identity import OURS, Identity

CANARIES = ("10.255.255.254", "fd00:ffff::1")
"""Private addresses, put on lo by the seal (`rules.place`)."""
PORT = 9
"""Below those that the cell may listen on; `discard`, should anybody ask."""
RESOLVER = ("127.0.0.1", 53)
"""With mode `door` the cell may not ask it; no rule of another mode rejects that."""
ANSWER_SECONDS = 3.5
"""A rejection takes a tenth of a millisecond. Should it be lost under load, TCP asks again after 1 and 3 s."""

_REJECTIONS = (errno.EHOSTUNREACH, errno.EACCES)
"""What a rejection is told as by IPv4 and by IPv6."""
_WORDS = {
    errno.ECONNREFUSED: "reached the kernel; the egress rules are not in force",
    errno.EADDRNOTAVAIL: "could not be tried: that is no address of this container; it was not sealed",
}
_TELL_ERRORS = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
"""IP_RECVERR: an ICMP error ends connect(2) at once; without it IPv6 asks again for a second."""


def canaries() -> tuple[str, ...]:
    """Those that this network namespace can have: IPv6 may be switched off in it, or missing in the kernel."""
    try:
        with open("/proc/sys/net/ipv6/conf/lo/disable_ipv6", encoding="ascii") as file:
            return CANARIES[:1] if file.read().strip() == "1" else CANARIES
    except FileNotFoundError:
        return CANARIES[:1]


def why_not(birds: Sequence[str], walled: Identity | None = None, seconds: float = ANSWER_SECONDS) -> str:
    """Why the rules do not hold; empty when each of `birds` was rejected, and the resolver to `walled`, who reaches the
    doors alone. Raises nothing: no proof is a failed one."""
    asked = [(OURS, bird, PORT) for bird in birds]
    if walled:
        asked.append((walled, *RESOLVER))
    for who, address, port in asked:
        problem = _problem(who, address, port, seconds)
        if problem:
            return f"the egress rules are not proved: a connection to {address}, port {port}, {problem}"
    return ""


def _problem(who: Identity, address: str, port: int, seconds: float) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with who.acting(), socket.socket(family, socket.SOCK_STREAM) as caller:
            caller.settimeout(seconds)
            caller.setsockopt(*_TELL_ERRORS[family], 1)
            caller.bind((address, 0))
            caller.connect((address, port))
    except OSError as error:
        words = _WORDS.get(error.errno or 0, f"ended with {error}; expected the rejection of the rules")
        return "" if error.errno in _REJECTIONS else words
    return "was accepted"
