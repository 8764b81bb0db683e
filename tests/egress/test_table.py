"""The table: everything that is tried against the packet rules, once without them and once with them.

Each row is tried by one user from the cell's namespace. Without the rules it must reach the far end, which shows that
the attempt is a real one; with them it is let through, or rejected at once, counted by the one rule that is meant, and
nothing of it arrives."""

from __future__ import annotations

import collections
import ipaddress
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from host.egress import LET_THROUGH
from tests.egress import wire
from tests.egress.attempts import REACHED, SILENT
from tests.egress.far_end import PUBLIC4, PUBLIC6
from tests.egress.namespaces import Nets
from tests.egress.near_end import HOST, UPSTREAM4, UPSTREAM6

# What may not be reached, by RFC. Written down a second time, apart from the rules: a range that is wrong in one of the
# two shows. (range, rule, line of the list of attacks)
RANGES4 = (
    ("0.0.0.0/8", "special", "S32"),  # RFC 791, 1122
    ("10.0.0.0/8", "private", "S30"),  # RFC 1918
    ("100.64.0.0/10", "private", "S32"),  # RFC 6598
    ("127.0.0.0/8", "special", "S32"),  # RFC 1122
    ("168.63.129.16/32", "link_local", "S31"),  # a cloud's own, in public space
    ("169.254.0.0/16", "link_local", "S31"),  # RFC 3927
    ("172.16.0.0/12", "private", "S30"),  # RFC 1918
    ("192.0.0.0/24", "special", "S32"),  # RFC 6890
    ("192.0.2.0/24", "special", "S32"),  # RFC 5737
    ("192.88.99.0/24", "special", "S32"),  # RFC 7526
    ("192.168.0.0/16", "private", "S30"),  # RFC 1918
    ("198.18.0.0/15", "special", "S32"),  # RFC 2544
    ("198.51.100.0/24", "special", "S32"),  # RFC 5737
    ("203.0.113.0/24", "special", "S32"),  # RFC 5737
    ("224.0.0.0/4", "special", "S32"),  # RFC 5771
    ("240.0.0.0/4", "special", "S32"),  # RFC 1112
)
RANGES6 = (
    ("::/128", "special", "S34"),  # RFC 4291
    ("::1/128", "special", "S34"),  # RFC 4291
    ("::/96", "special", "S34"),  # RFC 4291
    ("::ffff:0:0/96", "special", "S34"),  # RFC 4291
    ("::ffff:0:0:0/96", "special", "S34"),  # RFC 2765
    ("64:ff9b::/96", "special", "S34"),  # RFC 6052
    ("64:ff9b:1::/48", "special", "S34"),  # RFC 8215
    ("100::/64", "special", "S34"),  # RFC 6666
    ("100:0:0:1::/64", "special", "S34"),  # RFC 9780
    ("2001::/32", "special", "S34"),  # RFC 4380
    ("2001::/23", "special", "S34"),  # RFC 2928
    ("2001:db8::/32", "special", "S34"),  # RFC 3849
    ("2002::/16", "special", "S34"),  # RFC 3056
    ("3fff::/20", "special", "S34"),  # RFC 9637
    ("5f00::/16", "special", "S34"),  # RFC 9602
    ("fc00::/7", "private", "S34"),  # RFC 4193
    ("fe80::/10", "link_local", "S34"),  # RFC 4291
    ("fec0::/10", "special", "S34"),  # RFC 3879
    ("ff00::/8", "special", "S34"),  # RFC 4291
)
BY_HAND_ONLY = frozenset({"127.0.0.0/8", "::/128", "::1/128", "::ffff:0:0/96", "fe80::/10"})
"""Honest sockets cannot put these on the wire, or reach them only next door."""
MULTICAST = frozenset({"224.0.0.0/4", "ff00::/8"})
ENDS = {
    "0.0.0.0/8": ("0.0.0.1", "0.255.255.255"),  # 0.0.0.0 is this machine
    "240.0.0.0/4": ("240.0.0.0", "255.255.255.254"),  # the last is broadcast
    "::/96": ("::2", "::fffe:ffff"),  # the two before have ranges of their own
    "2001::/23": ("2001:1::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),  # behind Teredo
    "ff00::/8": ("ff02::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),  # ff00:: is not a group
}
"""First and last, where these are not the range's own."""

CELL4, CELL6 = "10.0.2.100", "fd00::100"
CLOSED4, CLOSED6 = "93.184.216.200", "2606:2800:220:1::200"
"""Public ones to which nothing is tried that is let through."""
GATEWAY4, GATEWAY6 = "10.0.2.2", "fd00::2"
REJECTED = frozenset({"EHOSTUNREACH", "EACCES", "EPERM"})

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Row(NamedTuple):
    attack: str
    """Line of the list of attacks."""
    who: str
    how: str
    words: dict[str, Any]
    wire: str
    """Where the packet goes, as the far end sees it."""
    rule: str
    """Who counts it."""
    note: str = ""
    also: str = ""
    """Who else counts something: the kernel's own answer to a forged source leads out, too."""

    @property
    def allowed(self) -> bool:
        return self.rule in LET_THROUGH

    @property
    def id(self) -> str:
        port = f":{self.words['port']}" if "port" in self.words else ""
        note = f" ({self.note})" if self.note else ""
        return f"{self.attack} {self.how} to {self.wire}{port} by {self.who}{note}"


class Result(NamedTuple):
    row: Row
    control: str
    """How it ended without the rules."""
    control_arrived: bool
    outcome: str
    counted: dict[str, int]
    """Packets by rule, of those that let nothing through for a rejection."""
    arrived: int

    @property
    def problem(self) -> str:
        """Why the row failed; empty when it passed."""
        row = self.row
        if self.control != REACHED or not self.control_arrived:
            return f"without rules it ended with {self.control}, arrived: {self.control_arrived}"
        stopped = set(self.counted) - LET_THROUGH - {row.also}
        if row.allowed:
            good = self.outcome == REACHED and self.arrived and self.counted.get(row.rule) and not stopped
        else:
            good = self.outcome in _words_for(row) and not self.arrived and stopped == {row.rule}
        return "" if good else f"it ended with {self.outcome}, {self.arrived} packets arrived, counted: {self.counted}"


def _words_for(row: Row) -> frozenset[str]:
    """A socket that is bound to a device, as link-local ones are, does not hear of what is told over lo."""
    return REJECTED | {SILENT} if "%" in str(row.words.get("to")) else REJECTED


class Table(NamedTuple):
    results: list[Result]
    strays: list[wire.Packet]
    """All that arrived while everything was to be rejected."""


def rows() -> list[Row]:
    every = (_ranges, _next_to_ranges, _host, _names, _ways, _crafted, _let_through)
    return list({row.id: row for each in every for row in each()}.values())


def run(nets: Nets, wanted: list[Row]) -> Table:
    """All rows without the rules, then with them: what must be rejected first, so that nothing else is on the wire."""
    nets.near.ask("unload")
    nets.near.ask("place")
    controls = {row.id: _without_rules(nets, row) for row in wanted}
    _until_quiet(nets, quiet_seconds=1.5)  # longer than TCP waits before it repeats itself
    nets.near.ask("load")
    nets.arrived()  # what came before the rules
    before = nets.counted()
    results = []
    for row in wanted:
        if not row.allowed:
            outcome, counted, before = _with_rules(nets, row, before)
            results.append(Result(row, *controls[row.id], outcome, counted, 0))
    strays = _until_quiet(nets)
    arrived = collections.Counter(packet.destination for packet in strays)
    results = [result._replace(arrived=arrived[result.row.wire]) for result in results]
    for row in wanted:
        if row.allowed:
            nets.arrived()
            outcome, counted, before = _with_rules(nets, row, before)
            results.append(Result(row, *controls[row.id], outcome, counted, _arrives(nets, row)))
    return Table(results, strays)


def _without_rules(nets: Nets, row: Row) -> tuple[str, bool]:
    nets.arrived()
    return nets.try_as(row.who, row.how, **row.words), _arrives(nets, row) > 0


def _with_rules(nets: Nets, row: Row, before: dict[str, int]) -> tuple[str, dict[str, int], dict[str, int]]:
    """How it ended, what was counted for it, and all counters after it."""
    outcome = nets.try_as(row.who, row.how, **row.words)
    after = nets.counted()
    return outcome, {name: after[name] - before[name] for name in after if after[name] != before[name]}, after


def _arrives(nets: Nets, row: Row, seconds: float = 5.0) -> int:
    """How many packets came to where the row leads; waits for the first."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = len(nets.arrived(row.wire))
        if found:
            return found
        time.sleep(0.002)
    return 0


def _until_quiet(nets: Nets, quiet_seconds: float = 0.3, seconds: float = 10.0) -> list[wire.Packet]:
    """What still arrives until nothing has for a while."""
    found: list[wire.Packet] = []
    deadline = time.monotonic() + seconds
    quiet_since = time.monotonic()
    while time.monotonic() < min(deadline, quiet_since + quiet_seconds):
        more = nets.arrived()
        if more:
            found += more
            quiet_since = time.monotonic()
        time.sleep(0.02)
    return found


# --- the rows --------------------------------------------------------------------------------------


def _row(attack: str, who: str, how: str, to: str, port: int, rule: str, note: str = "", **words: Any) -> Row:
    given = words | ({"to": to} if how == "ping" else {"to": to, "port": port})
    return Row(attack, who, how, given, to.partition("%")[0], rule, note)


def _raw(attack: str, to: str, protocol: int, payload: bytes, rule: str, note: str, **parts: Any) -> Row:
    """A packet made by hand, sent by one who may make packets: the cell may not."""
    old = ":" not in to
    source = parts.pop("source", CELL4 if old else CELL6)
    packet = wire.ip_packet(source, to, protocol, payload, **parts)
    words = {"packet": packet.hex(), "by": GATEWAY4 if old else GATEWAY6}
    return Row(attack, "forger", "raw", words, to, rule, note)


def _ranges() -> Iterator[Row]:
    """First, last and one in the middle of each range, by every way there is."""
    for text, rule, attack in (*RANGES4, *RANGES6):
        network = ipaddress.ip_network(text)
        first, last = ENDS.get(text, (str(network[0]), str(network[-1])))
        middle = "ff0e::7" if text == "ff00::/8" else str(network[network.num_addresses // 3])
        if text not in BY_HAND_ONLY | MULTICAST:
            yield _row(attack, "agent", "tcp", first, 443, rule)
            yield _row(attack, "agent", "tcp", last, 80, rule)
            yield _row(attack, "agent", "ping", middle, 0, rule)
            yield _row(attack, "agent", "udp", middle, 4433, rule)
            yield _row(attack, "keep", "tcp", middle, 8443, rule)
        for one in dict.fromkeys((first, middle, last)):
            yield _raw(attack, one, wire.UDP, wire.udp_segment(4433), rule, "datagram by hand")
        # By IPv6 the first header that is neither TCP, UDP nor ICMPv6 is refused wherever it goes.
        sctp_rule = rule if network.version == 4 else "crafted"
        yield _raw(attack, middle, wire.SCTP, wire.sctp_init(443), sctp_rule, "SCTP by hand")
    yield _row("S32", "agent", "udp", "255.255.255.255", 4433, "special")
    yield _row("S32", "agent", "udp", "239.1.2.3", 4433, "special")
    yield _row("S32", "agent", "udp", "239.255.255.255", 4433, "special")
    yield _row("S38", "agent", "udp", "224.0.0.251", 5353, "special", "mDNS")
    yield _row("S38", "agent", "udp", "ff02::fb%c0", 5353, "special", "mDNS")
    yield _row("S34", "agent", "udp", "ff05::1%c0", 4433, "special")
    yield _row("S34", "agent", "udp", "ff0e::1%c0", 4433, "special")
    yield _row("S34", "agent", "tcp", "fe80::2%c0", 443, "link_local")
    yield _row("S34", "agent", "ping", "fe80::2%c0", 0, "link_local")
    for unassigned in ("200::1", "1fff:ffff::1", "4000::1", "8000::1", "e000::1", "fe00::1"):
        yield _row("S34", "agent", "tcp", unassigned, 443, "special", "given to nobody")


def _next_to_ranges() -> Iterator[Row]:
    """The address before and the one after each range: what is public stays open."""
    for text, _, attack in (*RANGES4, *RANGES6):
        network = ipaddress.ip_network(text)
        for one in (int(network[0]) - 1, int(network[-1]) + 1):
            if not 0 < one < 2**network.max_prefixlen:
                continue
            address = ipaddress.IPv4Address(one) if network.version == 4 else ipaddress.IPv6Address(one)
            if not any(address in ipaddress.ip_network(other) for other, _, _ in (*RANGES4, *RANGES6)):
                public = address.version == 4 or address in ipaddress.ip_network("2000::/3")
                rule = "cell_out" if public else "special"
                yield _row(attack, "agent", "tcp", str(address), 443, rule, f"next to {text}")


def _host() -> Iterator[Row]:
    own, gateway, upstream, cloud = "the machine's own address", "the gateway", "the upstream resolver", "metadata"
    for address in HOST:
        yield _row("S33", "agent", "tcp", address, 22, "host_address", own)
        yield _row("S33", "agent", "udp", address, 4433, "host_address", own)
        yield _row("S33", "keep", "tcp", address, 443, "host_address", own)
    for address, ports, note in ((GATEWAY4, (22, 53, 80, 443), gateway), (UPSTREAM4, (80, 853, 443), upstream)):
        for port in ports:
            yield _row("S33", "agent", "tcp", address, port, "private", note)
    yield _row("S33", "agent", "tcp", GATEWAY6, 443, "private", gateway)
    yield _row("S33", "agent", "tcp", "169.254.1.2", 443, "link_local", "host.containers.internal")
    for address in ("169.254.169.254", "169.254.170.2"):
        yield _row("S31", "agent", "tcp", address, 80, "link_local", cloud)
    for address in ("100.100.100.200", "fd00:ec2::254", "fd20:ce::254"):
        yield _row("S31", "agent", "tcp", address, 80, "private", cloud)
    yield _row("S31", "agent", "tcp", "192.0.0.192", 80, "special", cloud)
    yield _row("S31", "keep", "tcp", "169.254.169.254", 80, "link_local", cloud)


def _names() -> Iterator[Row]:
    """Who may speak DNS, and to whom."""
    for who in ("agent", "keep"):
        for how in ("tcp", "udp"):
            yield _row("S38", who, how, CLOSED4, 53, "dns")
            yield _row("S38", who, how, UPSTREAM4, 53, "private", "the upstream resolver")
    for how in ("tcp", "udp"):
        for to, port in (("8.8.8.8", 53), (CLOSED6, 53), (CLOSED4, 853), (CLOSED6, 853)):
            yield _row("S38", "agent", how, to, port, "dns")
        yield _row("S38", "agent", how, UPSTREAM6, 53, "private", "the upstream resolver")
        for port in (137, 138, 139, 5353, 5355):
            yield _row("S38", "agent", how, CLOSED4, port, "protocol")
        for to, port in ((CLOSED4, 53), ("8.8.8.8", 53), (GATEWAY4, 53), (UPSTREAM4, 80), (UPSTREAM4, 853)):
            yield _row("S38", "resolver", how, to, port, "dns")
    yield _row("S38", "resolver", "tcp", CLOSED4, 443, "dns")
    yield _row("S38", "resolver", "tcp", CLOSED6, 443, "dns")


def _ways() -> Iterator[Row]:
    """Everything but TCP is closed, to public addresses too."""
    secret = b"secret" * 9
    for to in (CLOSED4, CLOSED6):
        for who in ("agent", "keep"):
            for port in (123, 443, 4433):
                yield _row("S39", who, "udp", to, port, "protocol")
        yield _row("S39", "agent", "ping", to, 0, "protocol", "tunnel")
    message = "an error that carries a message"
    yield _raw("S39", CLOSED4, wire.ICMP, b"\x03\x0d\0\0" + secret, "protocol", message)
    yield _raw("S39", CLOSED6, wire.ICMP6, b"\x01\x01\0\0" + secret, "protocol", message)
    yield _raw("S39", CLOSED6, wire.ICMP6, b"\x88\0\0\0" + secret, "protocol", "forged neighbour", hops=255)
    yield _raw("S39", CLOSED6, wire.ICMP6, b"\x8f\0\0\0" + secret, "protocol", "forged membership", hops=1)
    yield _raw("S30", CLOSED4, wire.SCTP, wire.sctp_init(443), "protocol", "SCTP")
    for protocol, name in ((2, "IGMP"), (4, "IP in IP"), (33, "DCCP"), (41, "IPv6 in IP"), (47, "GRE"), (50, "ESP")):
        yield _raw("S39", CLOSED4, protocol, secret, "protocol", name)
        yield _raw("S39", CLOSED6, protocol, secret, "crafted", name)
    for protocol, name in ((136, "UDP-Lite"), (115, "L2TP"), (255, "reserved")):
        yield _raw("S39", CLOSED4, protocol, secret, "protocol", name)


def _crafted() -> Iterator[Row]:
    """Packets that no honest program makes; some can be made without any capability."""
    through = bytes([131, 7, 4]) + ipaddress.IPv4Address("10.1.2.3").packed + b"\0"
    noted = bytes([7, 7, 4, 0, 0, 0, 0, 0])
    hop = "2606:2800:220:1::7"
    yield Row(
        *("S39", "forger", "udp", {"to": "10.1.2.3", "port": 4433, "options": _via(CLOSED4)}, CLOSED4, "crafted"),
        "source route to 10.1.2.3",
    )
    yield _row("S39", "agent", "tcp", CLOSED4, 80, "crafted", "record route", options=noted.hex())
    yield Row(
        *("S39", "agent", "udp", {"to": "fc00::7", "port": 4433, "segments": hop}, hop, "crafted"),
        "segment route to fc00::7",
    )
    freebind = {"to": CLOSED6, "port": 4433, "freebind": "2a00:1450::1"}
    yield Row("S39", "agent", "udp", freebind, CLOSED6, "crafted", "freebind", also="protocol")
    syn = wire.tcp_segment(80)
    yield _raw("S39", CLOSED4, wire.TCP, syn, "crafted", "source route by hand", options=through)
    for to, source in ((CLOSED4, "8.8.4.4"), (CLOSED4, GATEWAY4), (CLOSED6, GATEWAY6)):
        yield _raw("S39", to, wire.TCP, syn, "crafted", f"by hand, from {source}", source=source)
    yield _raw("S39", CLOSED4, wire.TCP, syn, "crafted", "first fragment", fragment=0x2000)
    yield _raw("S39", CLOSED4, wire.TCP, b"x" * 16, "crafted", "later fragment", fragment=0x0001)
    yield _raw("S39", CLOSED4, wire.TCP, b"x" * 16, "crafted", "overlapping fragment", fragment=0x2001)
    yield _raw("S39", CLOSED4, wire.TCP, wire.tcp_segment(0), "protocol", "TCP port 0")
    yield _raw("S39", CLOSED4, wire.UDP, wire.udp_segment(0), "protocol", "UDP port 0")
    yield _raw("S39", CLOSED6, wire.TCP, wire.tcp_segment(0), "protocol", "TCP port 0")
    for number, name, header in (
        (0, "hop-by-hop options", b"\x06\0\x01\x04\0\0\0\0"),
        (60, "destination options", b"\x06\0\x01\x04\0\0\0\0"),
        (43, "routing header", b"\x06\x02\0\x01\0\0\0\0" + ipaddress.IPv6Address("fc00::7").packed),
        (44, "crafted", b"\x06\0\0\x01\0\0\0\x07"),
        (51, "authentication header", b"\x06\x02" + b"\0" * 14),
        (135, "mobility header", b"\x3b\0\0\0\0\0\0\0"),
        (59, "no next header", b""),
    ):
        yield _raw("S39", CLOSED6, wire.TCP, syn, "crafted", name, headers=header, first=number)


def _let_through() -> Iterator[Row]:
    for port in (22, 80, 443, 8443, 9999):
        yield _row("open", "agent", "tcp", PUBLIC4, port, "cell_out")
        yield _row("open", "agent", "tcp", PUBLIC6, port, "cell_out")
    yield _row("open", "keep", "tcp", PUBLIC4, 443, "keep_out")
    yield _row("open", "keep", "tcp", PUBLIC6, 443, "keep_out")
    for how in ("tcp", "udp"):
        yield _row("open", "resolver", how, UPSTREAM4, 53, "dns_out")
        yield _row("open", "resolver", how, UPSTREAM6, 53, "dns_out")


def _via(first: str) -> str:
    """IP options: go to `first`, and on from there (loose source route)."""
    return (bytes([131, 7, 4]) + ipaddress.IPv4Address(first).packed + b"\0").hex()


pytestmark = pytest.mark.heavy

ROWS = rows()


@pytest.fixture(scope="module")
def table(nets: Nets) -> Table:
    return run(nets, ROWS)


ATTACKS = ("S30", "S31", "S32", "S33", "S34", "S38", "S39", "open")
"""Lines of spec/ATTACKS.md, and what must stay open."""
CASES = [pytest.param(each, marks=[pytest.mark.attack(each)] if each != "open" else []) for each in ATTACKS]


@pytest.mark.parametrize("attack", CASES)
def test_rows(attack: str, table: Table) -> None:
    """Without the rules each reaches the far end; with them it does, or is rejected, counted, and nothing arrives."""
    results = [each for each in table.results if each.row.attack == attack]
    assert results
    assert {each.row.id: each.problem for each in results if each.problem} == {}


@pytest.mark.attack("S30")
def test_nothing_else_arrives(table: Table) -> None:
    """No answer of the kernel's, no retry, nothing by a detour: but for what is left of other tests' connections."""
    assert {packet.destination for packet in table.strays} <= {PUBLIC4, PUBLIC6}


def test_every_rule_has_an_attempt(open_nets: Nets) -> None:
    """What counts rejections is counted up by some row, or by a test of its own."""
    elsewhere = {"own_address", "web_to_git", "dns_forged", "dns_limit", "flood", "inbound", "forwarded"}
    known = set(open_nets.counted()) - LET_THROUGH
    assert known - {row.rule for row in ROWS} == elsewhere
