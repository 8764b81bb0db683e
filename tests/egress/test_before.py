"""What was there before the rules gets nothing by that; and nobody comes in (S41)."""

from __future__ import annotations

import time

import pytest

from tests.egress import wire
from tests.egress.attempts import REACHED, SILENT
from tests.egress.far_end import ECHO_PORT, PUBLIC4
from tests.egress.namespaces import Nets
from tests.egress.test_table import CELL4, GATEWAY4

pytestmark = pytest.mark.heavy

DEAF = {SILENT, "EHOSTUNREACH"}


def heard(nets: Nets, text: str, seconds: float = 5.0) -> bool:
    """The far end hears `text` on a connection, sooner or later."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if text in nets.far.ask("take_heard"):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.attack("S41")
def test_an_open_connection_to_a_private_address_is_dead(bare_nets: Nets) -> None:
    """Neither side hears the other any more; the one to a public address goes on."""
    nets = bare_nets
    for key, to in (("private", "10.7.7.7"), ("public", PUBLIC4)):
        assert nets.try_as("agent", "hold", key=key, to=to, port=ECHO_PORT) == REACHED
        assert nets.try_as("agent", "say", key=key, text=f"{key} before") == REACHED
        assert heard(nets, f"{key} before")
        assert nets.try_as("agent", "hear", key=key, seconds=5.0) == f"{key} before"

    nets.near.ask("load")
    nets.arrived()
    for key in ("private", "public"):
        nets.try_as("agent", "say", key=key, text=f"{key} after")
    assert heard(nets, "public after")
    assert nets.try_as("agent", "hear", key="public", seconds=5.0) == "public after"
    assert nets.far.ask("say", text="pushed") >= 2
    assert nets.try_as("agent", "hear", key="public", seconds=5.0) == "pushed"
    assert nets.try_as("agent", "hear", key="private") in DEAF
    assert nets.far.ask("take_heard") == []
    assert nets.arrived("10.7.7.7") == []
    counted = nets.counted()
    assert counted["private"] >= 1  # what was said
    assert counted["inbound"] >= 1  # what was pushed


@pytest.mark.attack("S41")
def test_nobody_comes_in(bare_nets: Nets) -> None:
    """A listener of the cell is reached from outside without the rules only, on loopback always. A connection that came
    in before is as dead, in both directions."""
    nets = bare_nets
    assert nets.try_as("agent", "listen", key="door", port=7000) == REACHED
    assert nets.far.ask("call", source=GATEWAY4, to=CELL4, port=7000) == REACHED
    assert nets.try_as("agent", "accept", key="door", call="guest") == REACHED
    nets.far.ask("say", text="hello")
    assert nets.try_as("agent", "hear", key="guest", seconds=5.0) == "hello"

    nets.near.ask("load")
    nets.far.ask("say", text="still there")
    assert nets.try_as("agent", "hear", key="guest") in DEAF
    nets.try_as("agent", "say", key="guest", text="secret")
    assert not heard(nets, "secret", seconds=0.3)
    assert nets.far.ask("call", source=PUBLIC4, to=CELL4, port=7000) == SILENT
    assert nets.counted()["inbound"] >= 1
    assert nets.try_as("agent", "hold", key="self", to="127.0.0.1", port=7000) == REACHED


def test_datagrams_do_not_come_in(bare_nets: Nets) -> None:
    """Neither to a UDP socket of the cell, nor an echo request; the errors that TCP needs do."""
    nets = bare_nets
    assert nets.try_as("agent", "listen", key="ear", port=7002, kind="udp") == REACHED
    letter = {"source": PUBLIC4, "port": 9999, "to": CELL4, "to_port": 7002}
    nets.far.ask("send", **letter, text="one")
    assert nets.try_as("agent", "hear", key="ear", seconds=5.0) == "one"

    nets.near.ask("load")
    before = nets.counted()["inbound"]
    nets.far.ask("send", **letter, text="two")
    assert nets.try_as("agent", "hear", key="ear") == SILENT
    echo = wire.ip_packet(PUBLIC4, CELL4, wire.ICMP, wire.echo_request(4))
    nets.far.ask("send_packet", packet=echo.hex(), to=CELL4)
    assert nets.counted()["inbound"] == before + 2

    quoted = wire.ip_packet(CELL4, PUBLIC4, wire.TCP, wire.tcp_segment(80)[:8])
    body = b"\x03\x04\0\0\0\0\x04\xd2" + quoted  # fragmentation needed, next MTU 1234
    body = body[:2] + wire.checksum(body).to_bytes(2, "big") + body[4:]
    too_big = wire.ip_packet("172.16.8.8", CELL4, wire.ICMP, body)
    nets.far.ask("send_packet", packet=too_big.hex(), to=CELL4)
    after = nets.counted()
    assert after["inbound"] == before + 2
    assert after["private"] == 0
