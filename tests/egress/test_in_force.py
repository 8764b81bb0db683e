"""The rules are put in force whole, stay so whatever the cell tries, and can be proved to hold (S42); what was
there before them gets nothing by that, and nobody comes in (S41)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from infra.keep.egress import proof
from infra.keep.git_door.setup import PORT as GIT_PORT
from tests.egress import wire
from tests.egress.attempts import REACHED, SILENT
from tests.egress.far_end import ECHO_PORT, PUBLIC4, PUBLIC6
from tests.egress.namespaces import Nets
from tests.egress.peer import PeerError
from tests.egress.test_table import CELL4, GATEWAY4

pytestmark = pytest.mark.heavy


@pytest.mark.attack("S42")
@pytest.mark.parametrize("address", proof.CANARIES)
def test_the_proof_says_what_it_found(bare_nets: Nets, address: str) -> None:
    """No canary, a canary without rules, a canary behind the rules; and dropping without a word is no rejection."""
    nets = bare_nets

    def prove() -> str:
        said: str = nets.near.ask("prove", birds=[address])
        assert not said or f"a connection to {address}, port 9, " in said
        return said

    nets.near.ask("place")
    nets.near.ask("ip", command=f"address del {address}/{'128' if ':' in address else '32'} dev lo")
    assert "it was not sealed" in prove()
    nets.near.ask("place")
    nets.near.ask("place")  # again, as after a restart
    assert "the egress rules are not in force" in prove()
    nets.near.ask("load")
    assert (prove(), nets.counted()["canary"]) == ("", 1)

    nets.near.ask("unload")
    chain = "type filter hook output priority 0; policy drop;"
    nets.near.ask("nft", text=f"table inet other {{ chain out {{ {chain} }}\n}}")
    assert "ended with timed out" in prove()
    nets.near.ask("nft", text="delete table inet other")
    assert nets.arrived(*proof.CANARIES) == []


@pytest.mark.attack("S42")
def test_other_rules_do_not_prove_mode_door(bare_nets: Nets) -> None:
    """They reject the canary; that the cell is walled in takes rules that say so. It is no attempt of the cell's."""
    nets = bare_nets
    nets.near.ask("place")
    for mode, says in (("door", ""), ("open", "a connection to 127.0.0.1, port 53, "), ("door", "")):
        nets.near.ask("load", mode=mode)
        said = nets.near.ask("prove", mode="door")
        assert says in said if says else said == ""
    assert {nets.counted()[each] for each in ("not_by_door", "dns_by_cell")} == {0}


@pytest.mark.parametrize(
    ("how", "to", "mode"),
    [
        ("many_datagrams", "10.1.2.3", "open"),
        ("many_datagrams", proof.CANARIES[0], "door"),
        ("many", "10.1.2.3", "open"),
    ],
)
def test_a_cell_that_runs_against_the_wall_does_not_spoil_the_proof(
    bare_nets: Nets, how: str, to: str, mode: str
) -> None:
    """The kernel tells of so many rejections a second and no more; the keep hears of its own at once, and of those that
    it asks for as the cell does."""
    bare_nets.near.ask("load", mode=mode)
    bare_nets.near.ask("place")
    some: dict[str, object] = {"times": 200_000} if how == "many_datagrams" else {"times": 1000, "seconds": 0.001}
    words = some | {"to": to, "port": 9}
    _, found = bare_nets.near.ask(
        "meanwhile", name="agent", how=how, words=words, act="prove", given={"mode": mode}, times=40
    )
    assert found == [""] * 40


def test_what_nft_refuses_is_said(bare_nets: Nets) -> None:
    """Nft's own words, and nothing of it is in force."""
    nets = bare_nets
    with pytest.raises(PeerError, match=r"refused the egress rules with status 1: .*syntax error"):
        nets.near.ask("nft", text="table inet minifram { chain output { nonsense } }")
    with pytest.raises(PeerError, match="non-zero exit status"):  # there is no table
        nets.counted()
    with pytest.raises(PeerError, match=r"RulesError: nowhere-nft -f - failed .*nftables and iproute2 are needed"):
        nets.near.ask("load_by", nft="nowhere-nft")


@pytest.mark.attack("S42")
def test_there_is_no_moment_without_rules(open_nets: Nets) -> None:
    """While they are loaded again and again, not one packet of hundreds of attempts gets out."""
    nets = open_nets
    # Not by TCP: of more than about a thousand rejections a second the kernel does not tell, and TCP then waits.
    words = {"to": "10.1.2.3", "port": 4433, "times": 30000}
    ended, _ = nets.near.ask(
        "meanwhile", name="agent", how="many_datagrams", words=words, act="load", given={}, times=5
    )
    assert ended == {"EPERM": 30000}
    assert nets.arrived("10.1.2.3") == []
    assert nets.try_as("agent", "tcp", to=PUBLIC4, port=443) == REACHED


def test_neighbours_are_found_behind_the_rules(open_nets: Nets) -> None:
    """With nothing remembered of the link, IPv4 and IPv6 find their gateways."""
    nets = open_nets
    for version in ("-4", "-6"):
        nets.near.ask("ip", command=f"{version} neigh flush dev c0")
    assert nets.try_as("agent", "tcp", to=PUBLIC6, port=443) == REACHED
    assert nets.try_as("agent", "tcp", to=PUBLIC4, port=443) == REACHED
    assert nets.counted()["protocol"] == 0


@pytest.mark.attack("S32")
def test_loopback_is_for_loopback_addresses(bare_nets: Nets) -> None:
    """A server of the cell's own is reached by 127.0.0.1, not by an address of another device, public or not."""
    nets = bare_nets
    nets.near.ask("ip", command="address add 198.7.7.7/32 dev c0")
    assert nets.try_as("keep", "listen", key="server", port=7003) == REACHED
    others = {"198.7.7.7": "own_address", "10.0.2.100": "private"}
    for to in ("127.0.0.1", "127.9.9.9", *others):
        assert nets.try_as("agent", "hold", key=to, to=to, port=7003) == REACHED
    nets.near.ask("load")
    for to in ("127.0.0.1", "127.9.9.9"):
        assert nets.try_as("agent", "hold", key=to, to=to, port=7003) == REACHED
    for to, rule in others.items():
        assert nets.try_as("agent", "hold", key=to, to=to, port=7003) == "EHOSTUNREACH"
        assert nets.counted()[rule] == 1
    nets.near.ask("ip", command="address del 198.7.7.7/32 dev c0")
    assert nets.arrived("198.7.7.7", "10.0.2.100") == []


@pytest.mark.attack("S39")
def test_too_many_new_connections_are_held_back(bare_nets: Nets) -> None:
    """A cell that opens hundreds at once is slowed down; the keep's connections are not."""
    nets = bare_nets
    words = {"to": PUBLIC4, "port": 80, "times": 800}
    assert nets.try_as("agent", "many", **words) == {REACHED: 800}
    nets.near.ask("load")
    ended = nets.try_as("agent", "many", **words)
    assert ended.pop(REACHED) >= 500
    assert ended.keys() == {"EHOSTUNREACH"}
    assert nets.counted()["flood"] >= ended["EHOSTUNREACH"]
    assert nets.try_as("keep", "many", to=PUBLIC4, port=80, times=50) == {REACHED: 50}


@pytest.mark.attack("S39")
def test_nothing_is_forwarded(open_nets: Nets) -> None:
    """A cell is no router, whatever its sysctls say."""
    nets = open_nets
    run = nets.near.ask("run", command=["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
    assert run[0] == 0
    nets.near.ask("ip", command="route add 198.9.9.9/32 via 10.0.2.3")
    packet = wire.ip_packet(PUBLIC4, "198.9.9.9", wire.UDP, wire.udp_segment(4433)).hex()
    nets.far.ask("send_packet", packet=packet, to="10.0.2.100")
    assert nets.counted()["forwarded"] == 1
    assert nets.arrived("198.9.9.9") == []
    nets.near.ask("unload")
    nets.far.ask("send_packet", packet=packet, to="10.0.2.100")
    assert nets.arrived("198.9.9.9") != []
    nets.near.ask("ip", command="route del 198.9.9.9/32")


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


# The closed variant: the cell reaches loopback and nothing else, names included; the web door and the keep go out.

WALLED = {"EHOSTUNREACH", "EACCES"}
"""By IPv4 and by IPv6."""


@pytest.fixture
def walled(nets: Nets) -> Iterator[Nets]:
    nets.near.ask("load", mode="door")
    nets.near.ask("start_resolver")
    nets.far.ask("forget")
    nets.arrived()
    yield nets
    nets.near.ask("stop_resolver")
    nets.hang_up()


@pytest.mark.attack("S37", "S43")
@pytest.mark.parametrize("who", ["agent", "examiner"])
def test_the_cell_goes_nowhere(walled: Nets, who: str) -> None:
    """Not to a public address, not by any protocol, no name is resolved: nothing leaves, all is counted."""
    nets = walled
    for to in (PUBLIC4, PUBLIC6):
        assert nets.try_as(who, "tcp", to=to, port=443) in WALLED
        assert nets.try_as(who, "udp", to=to, port=443) == "EPERM"
        assert nets.try_as(who, "ping", to=to) in {"EPERM", *WALLED}
    assert nets.try_as(who, "udp", to="10.0.2.3", port=53) == "EPERM"
    before = nets.counted()
    assert nets.try_as(who, "named", name="secret.in.a.name.example", port=443).startswith("no such name")
    assert nets.try_as(who, "tcp", to="127.0.0.1", port=53) in WALLED
    counted = nets.counted()
    assert counted["dns_by_cell"] > before["dns_by_cell"]
    assert before["not_by_door"] >= 7
    assert nets.far.ask("take_questions") == []
    assert nets.arrived() == []


def test_the_web_door_and_the_keep_go_out(walled: Nets) -> None:
    """Loopback stays the cell's. The others go out by names as well, to public addresses by TCP alone, and not to the
    git daemon."""
    nets = walled
    assert nets.try_as("keep", "listen", key="door", port=7004) == REACHED
    for to in ("127.0.0.1", "127.9.9.9"):
        assert nets.try_as("agent", "hold", key=to, to=to, port=7004) == REACHED
    assert nets.try_as("agent", "hold", key="other", to="10.0.2.100", port=7004) in WALLED
    for who in ("web", "keep"):
        assert nets.try_as(who, "named", name="index.example", port=443) == REACHED
        assert nets.try_as(who, "tcp", to=PUBLIC6, port=443) == REACHED
        assert nets.try_as(who, "tcp", to="10.1.2.3", port=443) == "EHOSTUNREACH"
        assert nets.try_as(who, "tcp", to="169.254.169.254", port=80) == "EHOSTUNREACH"
        assert nets.try_as(who, "udp", to=PUBLIC4, port=443) == "EPERM"
        assert nets.try_as(who, "tcp", to=PUBLIC4, port=53) == "EHOSTUNREACH"
    counted = nets.counted()
    assert counted["web_out"] > 0
    assert counted["keep_out"] > 0
    assert nets.try_as("web", "tcp", to="127.0.0.1", port=GIT_PORT) == "EHOSTUNREACH"
    assert nets.try_as("agent", "tcp", to="127.0.0.1", port=GIT_PORT) == "ECONNREFUSED"


def test_the_web_door_is_bound_by_the_open_mode_too(nets: Nets) -> None:
    """To every public address."""
    nets.near.ask("load")
    assert nets.try_as("web", "tcp", to=PUBLIC4, port=443) == REACHED
    assert nets.try_as("web", "tcp", to="10.1.2.3", port=443) == "EHOSTUNREACH"
    assert nets.counted()["web_out"] > 0
