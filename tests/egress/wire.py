"""Packets as bytes, made and read: for what no honest socket sends, and for the far end that looks at everything."""

from __future__ import annotations

import ipaddress
import struct
from typing import NamedTuple

TCP, UDP, ICMP, ICMP6, IGMP, SCTP = 6, 17, 1, 58, 2, 132
NEIGHBOURS = frozenset({130, 131, 132, 133, 134, 135, 136, 143})
"""ICMPv6 types by which a kernel finds its neighbours and says which groups it is in."""


class Packet(NamedTuple):
    """What the far end saw of one packet."""

    version: int
    protocol: int
    source: str
    destination: str
    port: int
    """Of TCP and UDP, the destination's; of ICMP, the type."""
    size: int

    @property
    def is_chatter(self) -> bool:
        """A kernel's own, with or without any program, and only for the next kernel."""
        if self.version == 4:
            return self.protocol == IGMP and self.destination.startswith("224.0.0.")
        near = self.destination.startswith(("ff02:", "fe80:", "fd00::"))
        return near and (self.protocol == 0 or (self.protocol == ICMP6 and self.port in NEIGHBOURS))


def read_packet(data: bytes) -> Packet | None:
    """From the IP header on; None for what is not an IP."""
    version = data[0] >> 4 if data else 0
    if version == 4 and len(data) >= 20:
        header, protocol = (data[0] & 15) * 4, data[9]
        source, destination = (str(ipaddress.IPv4Address(data[at : at + 4])) for at in (12, 16))
    elif version == 6 and len(data) >= 40:
        header, protocol = 40, data[6]
        source, destination = (str(ipaddress.IPv6Address(data[at : at + 16])) for at in (8, 24))
    else:
        return None
    port = 0
    if protocol in (TCP, UDP, SCTP) and len(data) >= header + 4:
        (port,) = struct.unpack_from("!H", data, header + 2)
    elif protocol in (ICMP, ICMP6) and len(data) > header:
        port = data[header]
    return Packet(version, protocol, source, destination, port, len(data))


def ip_packet(
    source: str,
    destination: str,
    protocol: int,
    payload: bytes,
    *,
    options: bytes = b"",
    fragment: int = 0,
    headers: bytes = b"",
    first: int | None = None,
    hops: int = 64,
) -> bytes:
    """`fragment`: the 16 bits of IPv4. `headers` and `first`: IPv6 extension headers and the number of the first."""
    to, by = ipaddress.ip_address(destination), ipaddress.ip_address(source)
    if to.version == 4:
        words = 5 + len(options) // 4
        size = words * 4 + len(payload)
        start = struct.pack("!BBHHHBBH", 4 << 4 | words, 0, size, 7, fragment, hops, protocol, 0)
        return start + by.packed + to.packed + options + payload
    body = headers + payload
    start = struct.pack("!IHBB", 6 << 28, len(body), protocol if first is None else first, hops)
    return start + by.packed + to.packed + body


def checksum(data: bytes) -> int:
    total = int(sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2))))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_segment(port: int, payload: bytes = b"hello", source_port: int = 40000) -> bytes:
    """Without a checksum: nobody has to accept it."""
    return struct.pack("!HHHH", source_port, port, 8 + len(payload), 0) + payload


def tcp_segment(port: int, flags: int = 0x02) -> bytes:
    return struct.pack("!HHIIBBHHH", 40000, port, 1, 0, 5 << 4, flags, 1024, 0, 0)


def sctp_init(port: int) -> bytes:
    return struct.pack("!HHII", 40000, port, 0, 0) + struct.pack("!BBHIIHHI", 1, 0, 20, 1, 65535, 1, 1, 1)


def echo_request(version: int) -> bytes:
    body = struct.pack("!HH", 1, 1) + b"hello"
    kind = 8 if version == 4 else 128
    return struct.pack("!BBH", kind, 0, checksum(struct.pack("!BBH", kind, 0, 0) + body) if version == 4 else 0) + body


# --- DNS -------------------------------------------------------------------------------------------

QTYPES = {"A": 1, "PTR": 12, "TXT": 16, "AAAA": 28}


def question(name: str, qtype: str = "A") -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 0x1234, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", QTYPES[qtype], 1)


def read_question(query: bytes) -> tuple[str, int, int]:
    """Name, type, and where the question ends. Raises IndexError, struct.error for what is none."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("latin-1"))
        at += query[at] + 1
    (qtype,) = struct.unpack_from("!H", query, at + 1)
    return ".".join(labels), qtype, at + 5


def answer(query: bytes, end: int, qtype: int, addresses: list[str], ttl: int) -> bytes:
    """The reply to `query`, which ends at `end`."""
    records = b""
    for address in addresses:
        packed = ipaddress.ip_address(address).packed
        records += struct.pack("!HHHIH", 0xC00C, qtype, 1, ttl, len(packed)) + packed
    return query[:2] + struct.pack("!5H", 0x8180, 1, len(addresses), 0, 0) + query[12:end] + records


def read_answer(reply: bytes) -> tuple[int, list[str]]:
    """The status of a reply (0 good, 2 failed, 3 no such name, 5 refused), and its addresses."""
    (count,) = struct.unpack_from("!H", reply, 6)
    _, _, at = read_question(reply)
    found = []
    for _ in range(count):
        while reply[at] & 0xC0 != 0xC0 and reply[at]:
            at += reply[at] + 1
        at += 2 if reply[at] & 0xC0 == 0xC0 else 1
        qtype, _, _, size = struct.unpack_from("!HHIH", reply, at)
        at += 10
        if qtype in (1, 28):
            found.append(str(ipaddress.ip_address(reply[at : at + size])))
        at += size
    return reply[3] & 15, found
