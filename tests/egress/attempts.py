"""What a program of the cell can try, each with a short deadline; the outcome is one word. Runs in a process that has
already become the user in question."""

from __future__ import annotations

import collections
import errno
import functools
import ipaddress
import os
import select
import socket
import struct
from collections.abc import Callable
from typing import Any

from tests.egress import wire

SECONDS = 2.0
QUIET_SECONDS = 0.4
"""How long one listens for what should not come."""
REACHED = "reached"
"""The far end answered, or for a raw packet: the kernel took it."""
SILENT = "silent"
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}

_held: dict[str, socket.socket] = {}


def _in_a_word(attempt: Callable[..., object]) -> Callable[..., Any]:
    """How it ended: what it says, whether something came, or the error's name."""

    @functools.wraps(attempt)
    def tried(*words: Any, **more: Any) -> str:
        try:
            found = attempt(*words, **more)
        except TimeoutError:
            return SILENT
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, str(error))
        return found if isinstance(found, str) else REACHED if found or found is None else SILENT

    return tried


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _socket(to: str, kind: str = "udp", protocol: int = 0, seconds: float = SECONDS) -> socket.socket:
    """One that learns of a rejection when it comes (IP_RECVERR)."""
    made = socket.socket(_family(to), KINDS[kind], protocol)
    made.settimeout(seconds)
    made.setsockopt(*((socket.IPPROTO_IPV6, 25) if ":" in to else (socket.IPPROTO_IP, 11)), 1)
    return made


def _at(address: str, port: int) -> tuple[Any, ...]:
    """A socket address; `fe80::1%c0` has a zone."""
    if ":" not in address:
        return (address, port)
    bare, _, zone = address.partition("%")
    return (bare, port, 0, socket.if_nametoindex(zone) if zone else 0)


def _connect(caller: socket.socket, to: str, port: int, seconds: float = SECONDS) -> None:
    """An ordinary connect by IPv6 learns of a rejection when TCP asks again, after a second."""
    caller.setblocking(False)
    status = caller.connect_ex(_at(to, port))
    if status == errno.EINPROGRESS:
        waiting = select.poll()
        waiting.register(caller, select.POLLOUT)
        if not waiting.poll(seconds * 1000):
            raise TimeoutError
        status = caller.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if status:
        raise OSError(status, os.strerror(status))
    caller.settimeout(seconds)


@_in_a_word
def tcp(to: str, port: int, options: str = "") -> object:
    """Connect, ask something and wait for an answer."""
    with _socket(to, "tcp") as caller:
        if options:
            caller.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes.fromhex(options))
        _connect(caller, to, port)
        caller.sendall(b"GET / HTTP/1.0\r\n\r\n" if port != 53 else b"\0\x1b" + wire.question("a.example"))
        return caller.recv(1000)


def named(name: str, port: int) -> Any:
    """As any program that is given a name or a strange spelling of an address."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return f"no such name ({error.strerror})"
    return tcp(found[0][4][0], port)


@_in_a_word
def udp(to: str, port: int, freebind: str = "", segments: str = "", options: str = "") -> object:
    """Send and wait for an answer from anywhere. `freebind`: a source that is not ours; `segments`: an IPv6 route."""
    with socket.socket(_family(to), socket.SOCK_DGRAM) as caller:
        caller.settimeout(SECONDS)
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if options:
            caller.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes.fromhex(options))
        if freebind:
            caller.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND, for everybody
            caller.bind((freebind, 0))
        if segments:
            hop = ipaddress.ip_address(segments).packed
            route = struct.pack("!BBBBBBH", 0, 4, 4, 1, 1, 0, 0) + ipaddress.ip_address(to).packed + hop
            caller.setsockopt(socket.IPPROTO_IPV6, 57, route)  # IPV6_RTHDR, for everybody
        caller.sendto(wire.question("a.example") if port == 53 else b"hello", _at(to, port))
        # Of those the answer goes elsewhere.
        return REACHED if freebind or segments or options else caller.recv(1000)


@_in_a_word
def ping(to: str) -> object:
    """The ICMP socket that needs no capability."""
    protocol = socket.IPPROTO_ICMPV6 if ":" in to else socket.IPPROTO_ICMP
    with _socket(to, protocol=protocol) as caller:
        caller.sendto(wire.echo_request(6 if ":" in to else 4), _at(to, 0))
        return caller.recv(1000)


@_in_a_word
def raw(packet: str, by: str) -> object:
    """A packet made by hand, header and all, handed to the neighbour `by`; takes CAP_NET_RAW."""
    with socket.socket(_family(by), socket.SOCK_RAW, socket.IPPROTO_RAW) as caller:
        caller.sendto(bytes.fromhex(packet), _at(by, 0))
    return REACHED


@_in_a_word
def hold(key: str, to: str, port: int) -> object:
    """Open a connection that stays open."""
    caller = _socket(to, "tcp")
    _connect(caller, to, port)
    _held[key] = caller
    return REACHED


def listen(key: str, port: int, kind: str = "tcp") -> str:
    listener = socket.socket(socket.AF_INET, KINDS[kind])
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.settimeout(SECONDS)
    listener.bind(("", port))
    if kind == "tcp":
        listener.listen()
    _held[key] = listener
    return REACHED


@_in_a_word
def answer_from(port: int, address: str = "127.0.0.1") -> object:
    """A datagram over the loopback device from this port of ours, which may be somebody's already."""
    with _socket(address, seconds=QUIET_SECONDS) as asker, _socket(address) as answerer:
        asker.bind((address, 0))
        answerer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        answerer.bind((address, port))
        answerer.connect(asker.getsockname())
        answerer.send(b"an answer")
        return asker.recv(100)


@_in_a_word
def accept(key: str, call: str) -> object:
    _held[call], _ = _held[key].accept()
    return REACHED


@_in_a_word
def say(key: str, text: str) -> object:
    """Into what is open; whether it arrived is for the far end to say."""
    return _held[key].send(text.encode())


@_in_a_word
def hear(key: str, seconds: float = QUIET_SECONDS) -> object:
    """What came in, or that nothing did."""
    _held[key].settimeout(seconds)
    return _held[key].recv(1000).decode()


def release() -> str:
    """Close what is held, at once: nothing is left that the kernel would go on saying for minutes."""
    while _held:
        _, one = _held.popitem()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    return REACHED


def dns(name: str, qtype: str = "A", seconds: float = SECONDS) -> list[Any]:
    """Ask the resolver: status and addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
        caller.settimeout(seconds)
        caller.sendto(wire.question(name, qtype), ("127.0.0.1", 53))
        try:
            return list(wire.read_answer(caller.recv(2000)))
        except TimeoutError:
            return [SILENT, []]


def dns_by_tcp(name: str, seconds: float = SECONDS) -> list[Any]:
    query = wire.question(name)
    with socket.create_connection(("127.0.0.1", 53), seconds) as caller:
        caller.sendall(struct.pack("!H", len(query)) + query)
        try:
            reply = caller.recv(2000)
        except TimeoutError:
            reply = b""
        return list(wire.read_answer(reply[2:])) if len(reply) > 2 else [SILENT, []]


def many(to: str, port: int, times: int, seconds: float = SECONDS) -> dict[str, int]:
    """Connections one after another as fast as they go: how they ended."""

    @_in_a_word
    def once() -> None:
        with _socket(to, "tcp") as caller:
            _connect(caller, to, port, seconds)

    return collections.Counter(once() for _ in range(times))


def many_datagrams(to: str, port: int, times: int) -> dict[str, int]:
    """Sent one after another: how sending ended."""
    with socket.socket(_family(to), socket.SOCK_DGRAM) as caller:
        send = _in_a_word(caller.sendto)
        return collections.Counter(send(b"hello", _at(to, port)) for _ in range(times))


def many_names(names: list[str], qtype: str) -> None:
    """Questions one after another, with little patience."""
    for name in names:
        dns(name, qtype, seconds=0.02)


CALLS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        *(accept, answer_from, dns, dns_by_tcp, hear, hold, listen, many, many_datagrams, many_names),
        *(named, ping, raw, release, say, tcp, udp),
    )
}
