"""What a program of the cell can try, each with a short deadline; the outcome is one word. Runs in a process that has
already become the user in question."""

from __future__ import annotations

import errno
import ipaddress
import os
import select
import socket
import struct
import subprocess
from typing import Any

from tests.egress import wire

SECONDS = 2.0
QUIET_SECONDS = 0.4
"""How long one listens for what should not come."""
REACHED = "reached"
"""The far end answered, or for a raw packet: the kernel took it."""
SILENT = "silent"

_held: dict[str, socket.socket] = {}


def _word(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, str(error))


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _at(address: str, port: int) -> tuple[Any, ...]:
    """A socket address; `fe80::1%c0` has a zone."""
    if ":" not in address:
        return (address, port)
    bare, _, zone = address.partition("%")
    return (bare, port, 0, socket.if_nametoindex(zone) if zone else 0)


def _tell_errors(caller: socket.socket, to: str) -> None:
    level, option = (socket.IPPROTO_IPV6, 25) if ":" in to else (socket.IPPROTO_IP, 11)  # IP_RECVERR
    caller.setsockopt(level, option, 1)


def tcp(to: str, port: int, options: str = "", seconds: float = SECONDS) -> str:
    """Connect, ask something and wait for an answer."""
    with socket.socket(_family(to), socket.SOCK_STREAM) as caller:
        try:
            if options:
                caller.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes.fromhex(options))
            _connect(caller, to, port, seconds)
            caller.sendall(b"GET / HTTP/1.0\r\n\r\n" if port != 53 else b"\0\x1b" + wire.question("a.example"))
            return REACHED if caller.recv(1000) else SILENT
        except TimeoutError:
            return SILENT
        except OSError as error:
            return _word(error)


def _connect(caller: socket.socket, to: str, port: int, seconds: float) -> None:
    """Learns of a rejection when it comes. An ordinary connect by IPv6 does so when TCP asks again, after a second."""
    caller.setblocking(False)
    _tell_errors(caller, to)
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


def connect_plainly(to: str, port: int) -> str:
    """As a program does that knows nothing of error queues."""
    try:
        with socket.create_connection((to, port), timeout=20):
            return REACHED
    except OSError as error:
        return SILENT if isinstance(error, TimeoutError) else _word(error)


def named(name: str, port: int) -> str:
    """As any program that is given a name or a strange spelling of an address."""
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return f"no such name ({error.strerror})"
    return tcp(found[0][4][0], port)  # type: ignore[arg-type]


def udp(to: str, port: int, freebind: str = "", segments: str = "", options: str = "") -> str:
    """Send and wait for an answer from anywhere. `freebind`: a source that is not ours; `segments`: an IPv6 route."""
    payload = wire.question("a.example") if port == 53 else b"hello"
    with socket.socket(_family(to), socket.SOCK_DGRAM) as caller:
        caller.settimeout(SECONDS)
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        try:
            if options:
                caller.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes.fromhex(options))
            if freebind:
                caller.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND, for everybody
                caller.bind((freebind, 0))
            if segments:
                hop = ipaddress.ip_address(segments).packed
                route = struct.pack("!BBBBBBH", 0, 4, 4, 1, 1, 0, 0) + ipaddress.ip_address(to).packed + hop
                caller.setsockopt(socket.IPPROTO_IPV6, 57, route)  # IPV6_RTHDR, for everybody
            caller.sendto(payload, _at(to, port))
            if freebind or segments or options:
                return REACHED  # the answer goes elsewhere
            return REACHED if caller.recv(1000) else SILENT
        except TimeoutError:
            return SILENT
        except OSError as error:
            return _word(error)


def ping(to: str) -> str:
    """The ICMP socket that needs no capability."""
    version = 6 if ":" in to else 4
    protocol = socket.IPPROTO_ICMPV6 if version == 6 else socket.IPPROTO_ICMP
    with socket.socket(_family(to), socket.SOCK_DGRAM, protocol) as caller:
        caller.settimeout(SECONDS)
        _tell_errors(caller, to)
        try:
            caller.sendto(wire.echo_request(version), _at(to, 0))
            return REACHED if caller.recv(1000) else SILENT
        except TimeoutError:
            return SILENT
        except OSError as error:
            return _word(error)


def raw(packet: str, by: str) -> str:
    """A packet made by hand, header and all, handed to the neighbour `by`; takes CAP_NET_RAW."""
    try:
        with socket.socket(_family(by), socket.SOCK_RAW, socket.IPPROTO_RAW) as caller:
            caller.sendto(bytes.fromhex(packet), _at(by, 0))
        return REACHED
    except OSError as error:
        return _word(error)


def hold(key: str, to: str, port: int, kind: str = "tcp") -> str:
    """Open something that stays open."""
    caller = socket.socket(_family(to), socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    try:
        _connect(caller, to, port, SECONDS)
    except OSError as error:
        caller.close()
        return SILENT if isinstance(error, TimeoutError) else _word(error)
    _held[key] = caller
    return REACHED


def listen(key: str, port: int, kind: str = "tcp") -> str:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.settimeout(SECONDS)
    listener.bind(("", port))
    if kind == "tcp":
        listener.listen()
    _held[key] = listener
    return REACHED


def answer_from(port: int, address: str = "127.0.0.1") -> str:
    """A datagram over the loopback device from this port of ours, which may be somebody's already."""
    with (
        socket.socket(_family(address), socket.SOCK_DGRAM) as asker,
        socket.socket(_family(address), socket.SOCK_DGRAM) as answerer,
    ):
        asker.settimeout(QUIET_SECONDS)
        asker.bind((address, 0))
        answerer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _tell_errors(answerer, address)
        try:
            answerer.bind((address, port))
            answerer.connect(asker.getsockname())
            answerer.send(b"an answer")
            return REACHED if asker.recv(100) else SILENT
        except TimeoutError:
            return SILENT
        except OSError as error:
            return _word(error)


def accept(key: str, call: str) -> str:
    try:
        _held[call], _ = _held[key].accept()
    except TimeoutError:
        return SILENT
    _held[call].settimeout(SECONDS)
    return REACHED


def say(key: str, text: str) -> str:
    """Into what is open; whether it arrived is for the far end to say."""
    try:
        _held[key].send(text.encode())
    except OSError as error:
        return _word(error)
    return REACHED


def hear(key: str, seconds: float = QUIET_SECONDS) -> str:
    """What came in, or that nothing did."""
    _held[key].settimeout(seconds)
    try:
        return _held[key].recv(1000).decode() or "closed"
    except TimeoutError:
        return SILENT
    except OSError as error:
        return _word(error)


def release(prefix: str = "") -> str:
    """Close what is held, at once: nothing is left that the kernel would go on saying for minutes."""
    for key in [key for key in _held if key.startswith(prefix)]:
        one = _held.pop(key)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    return REACHED


def dns(name: str, qtype: str = "A", server: str = "127.0.0.1", seconds: float = SECONDS) -> list[Any]:
    """Ask the resolver: status and addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
        caller.settimeout(seconds)
        try:
            caller.sendto(wire.question(name, qtype), (server, 53))
            return list(wire.read_answer(caller.recv(2000)))
        except TimeoutError:
            return [SILENT, []]
        except OSError as error:
            return [_word(error), []]


def dns_by_tcp(name: str, qtype: str = "A", seconds: float = SECONDS) -> list[Any]:
    query = wire.question(name, qtype)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as caller:
        caller.settimeout(seconds)
        try:
            caller.connect(("127.0.0.1", 53))
            caller.sendall(struct.pack("!H", len(query)) + query)
            reply = caller.recv(2000)
            return list(wire.read_answer(reply[2:])) if len(reply) > 2 else [SILENT, []]
        except TimeoutError:
            return [SILENT, []]
        except OSError as error:
            return [_word(error), []]


def many(to: str, port: int, times: int, seconds: float = SECONDS) -> dict[str, int]:
    """Connections one after another as fast as they go: how they ended."""
    ended: dict[str, int] = {}
    for _ in range(times):
        with socket.socket(_family(to), socket.SOCK_STREAM) as caller:
            try:
                _connect(caller, to, port, seconds)
                word = REACHED
            except TimeoutError:
                word = SILENT
            except OSError as error:
                word = _word(error)
        ended[word] = ended.get(word, 0) + 1
    return ended


def many_datagrams(to: str, port: int, times: int) -> dict[str, int]:
    """Sent one after another: how sending ended."""
    ended: dict[str, int] = {}
    with socket.socket(_family(to), socket.SOCK_DGRAM) as caller:
        for _ in range(times):
            try:
                caller.sendto(b"hello", _at(to, port))
                word = REACHED
            except OSError as error:
                word = _word(error)
            ended[word] = ended.get(word, 0) + 1
    return ended


def many_names(names: list[str], qtype: str) -> dict[str, int]:
    """Questions one after another, with little patience; the answers by status."""
    ended: dict[str, int] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
        caller.settimeout(0.02)
        for name in names:
            caller.sendto(wire.question(name, qtype), ("127.0.0.1", 53))
            try:
                status = str(caller.recv(2000)[3] & 15)
            except TimeoutError:
                status = SILENT
            ended[status] = ended.get(status, 0) + 1
    return ended


def run(command: list[str]) -> list[Any]:
    """A program, as this user: its status and what it said."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    return [done.returncode, (done.stdout + done.stderr)[-2000:]]


def write(path: str, text: str) -> str:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        return _word(error)
    return REACHED


def sit(address: str, first: int, last: int) -> int:
    """Take ports so that nobody else has them; how many were free."""
    taken = 0
    for port in range(first, last + 1):
        one = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            one.bind((address, port))
            one.listen(1)
        except OSError:
            one.close()
            continue
        _held[f"{address} {port}"] = one
        taken += 1
    return taken


def packet_socket() -> str:
    """What goes past all rules of IP, had one the right to it."""
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    except OSError as error:
        return _word(error)
    return REACHED


def who() -> list[Any]:
    with open("/proc/self/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return [os.getuid(), int(fields["CapEff"], 16), int(fields["NoNewPrivs"])]
