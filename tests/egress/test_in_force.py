"""The rules are put in force whole, stay so whatever the cell tries, and can be proved to hold (S40, S42)."""

from __future__ import annotations

import pytest

from infra.keep.egress.rules import rules_text
from tests.egress import wire
from tests.egress.attempts import REACHED
from tests.egress.far_end import PUBLIC4, PUBLIC6
from tests.egress.namespaces import Nets
from tests.egress.near_end import EXITS
from tests.egress.peer import PeerError

pytestmark = pytest.mark.heavy

HARMLESS = (
    ["nft", "list", "ruleset"],
    ["nft", "-j", "list", "counters"],
    ["ip", "address", "add", "10.9.9.9/32", "dev", "lo"],
    ["ip", "address", "del", "10.9.9.9/32", "dev", "lo"],
    ["ip", "rule", "add", "pref", "99", "lookup", "main"],
    ["ip", "rule", "del", "pref", "99"],
    ["ip", "route", "add", "100.65.0.0/16", "via", "10.0.2.2"],
    ["ip", "route", "del", "100.65.0.0/16"],
    ["ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1"],
    ["ip", "link", "del", "d0"],
    ["tc", "qdisc", "add", "dev", "lo", "root", "pfifo"],
    ["tc", "qdisc", "del", "dev", "lo", "root"],
)
"""What root of the namespace can do and undo."""
HARMFUL = (
    ["nft", "flush", "ruleset"],
    ["nft", "delete", "table", "inet", "minifram"],
    ["nft", "flush", "chain", "inet", "minifram", "output"],
    ["nft", "add", "element", "inet", "minifram", "upstreams4", "{ 10.0.2.2 }"],
    ["ip", "address", "del", "10.255.255.254/32", "dev", "lo"],
    ["ip", "route", "replace", "default", "via", "10.0.2.3"],
    ["ip", "link", "set", "c0", "down"],
    ["ip", "link", "del", "c0"],
)
SYSCTLS = ("ipv4/ip_forward", "ipv4/conf/all/route_localnet", "ipv6/conf/all/disable_ipv6", "ipv4/ping_group_range")


def test_a_cell_cannot_change_the_rules(open_nets: Nets) -> None:
    """Not the rules, not routes, addresses, links, queues or sysctls; who may, can with the same programs."""
    nets = open_nets
    nets.near.ask("place")
    for command in HARMLESS:
        status, told = nets.near.ask("run", command=command)
        assert status == 0, (command, told)
    for command in (*HARMLESS, *HARMFUL):
        status, told = nets.try_as("agent", "run", command=command)
        assert status != 0, command
        assert "not permitted" in told or "Cannot find device" in told, (command, told)
    for name in SYSCTLS:
        path = f"/proc/sys/net/{name}"
        assert nets.try_as("agent", "write", path=path, text="0") == "EACCES", path
    assert nets.near.ask("run", command=["sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_forward"])[0] == 0
    assert nets.try_as("agent", "packet_socket") == "EPERM"
    assert nets.try_as("forger", "packet_socket") == REACHED
    assert nets.near.ask("prove") == ["REJECTED", ""]
    assert nets.try_as("agent", "tcp", to="10.1.2.3", port=443) == "EHOSTUNREACH"


def test_rules_of_a_namespace_of_its_own_are_no_rules_of_ours(open_nets: Nets) -> None:
    """Where the kernel lets the cell make a namespace, it is root there and nothing changes here."""
    open_nets.near.ask("place")
    command = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", "nft flush ruleset && nft list ruleset"]
    status, told = open_nets.try_as("agent", "run", command=command)
    assert (status, told) == (0, "")
    assert open_nets.near.ask("prove") == ["REJECTED", ""]


@pytest.mark.parametrize("version", [4, 6])
def test_the_proof_has_three_answers(bare_nets: Nets, version: int) -> None:
    """No canary, a canary without rules, a canary behind the rules; and dropping without a word is no rejection."""
    nets = bare_nets
    address = {4: "10.255.255.254/32", 6: "fd00:ffff::1/128"}[version]
    nets.near.ask("place")
    nets.near.ask("ip", command=f"address del {address} dev lo")
    assert nets.near.ask("prove", version=version)[0] == "NO_CANARY"
    nets.near.ask("place")
    nets.near.ask("place")  # again, as after a restart
    verdict, detail = nets.near.ask("prove", version=version)
    assert (verdict, "not in force" in detail) == ("NOT_REJECTED", True)
    nets.near.ask("load")
    before = nets.counted()["canary"]
    assert nets.near.ask("prove", version=version) == ["REJECTED", ""]
    assert nets.counted()["canary"] == before + 1
    assert nets.near.ask("prove", version=version) == ["REJECTED", ""]

    nets.near.ask("unload")
    chain = "type filter hook output priority 0; policy drop;"
    nets.near.ask("nft", text=f"table inet other {{ chain out {{ {chain} }}\n}}")
    assert nets.near.ask("prove", version=version, seconds=0.2)[0] == "NO_ANSWER"
    nets.near.ask("nft", text="delete table inet other")
    assert nets.arrived("10.255.255.254", "fd00:ffff::1") == []


def test_a_rejection_of_another_kind_proves_nothing(bare_nets: Nets) -> None:
    """Only the answer that these rules give counts: not a reset, not another ICMP error, not a route to nowhere."""
    nets = bare_nets
    nets.near.ask("place")
    for kind in ("tcp reset", "icmpx no-route", "icmpx host-unreachable", "icmpx port-unreachable"):
        # The reset comes from the canary's own address.
        chain = f"type filter hook output priority 0; tcp flags rst accept; tcp dport 9 reject with {kind};"
        nets.near.ask("nft", text=f"table inet other {{ chain out {{ {chain} }}\n}}")
        for version in (4, 6):
            assert nets.near.ask("prove", version=version)[0] in {"NO_ANSWER", "NOT_REJECTED"}, (kind, version)
        nets.near.ask("nft", text="delete table inet other")


def test_a_cell_that_takes_every_port_proves_nothing(open_nets: Nets) -> None:
    """Listening at the canary's own address changes nothing; where no port is left to ask from, there is no proof."""
    nets = open_nets
    nets.near.ask("place")
    assert nets.try_as("agent", "sit", address="10.255.255.254", first=20000, last=20100) == 101
    assert nets.near.ask("prove") == ["REJECTED", ""]
    path = "/proc/sys/net/ipv4/ip_local_port_range"
    before = nets.near.ask("run", command=["cat", path])[1]
    nets.near.ask("run", command=["sh", "-c", f"echo 20200 20210 >{path}"])
    assert nets.near.ask("prove") == ["REJECTED", ""]
    assert nets.try_as("agent", "sit", address="127.0.0.1", first=20200, last=20210) == 11
    verdict, detail = nets.near.ask("prove")
    assert (verdict, "could not be tried" in detail) == ("NO_ANSWER", True)
    nets.try_as("agent", "release")
    assert nets.near.ask("prove") == ["REJECTED", ""]
    nets.near.ask("run", command=["sh", "-c", f"echo {' '.join(before.split())} >{path}"])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("many_datagrams", {"to": "10.1.2.3", "port": 4433, "times": 200_000}),
        ("many_datagrams", {"to": "10.255.255.254", "port": 9, "times": 200_000}),
        ("many", {"to": "10.1.2.3", "port": 443, "times": 1000, "seconds": 0.001}),
    ],
)
def test_a_cell_that_runs_against_the_wall_does_not_spoil_the_proof(
    open_nets: Nets, how: str, words: dict[str, object]
) -> None:
    """The kernel tells of so many rejections a second and no more; the keep hears of its own at once."""
    open_nets.near.ask("place")
    found = open_nets.near.ask("prove_while", name="agent", how=how, words=words, times=40)
    assert found == ["REJECTED"] * 40


@pytest.mark.parametrize("mode", ["open", "door"])
def test_the_seal_in_one_call(bare_nets: Nets, mode: str) -> None:
    """Rules, canary and proof; what it gives back notices when the rules or the canary are gone, and come back."""
    good, unloaded, alone, again = bare_nets.near.ask("seal", mode=mode)
    assert (good, again) == ("", "")
    assert "(not rejected): " in unloaded
    assert "the egress rules are not in force" in unloaded
    assert "(no canary): fd00:ffff::1 is not an address" in alone
    assert bare_nets.arrived("10.255.255.254", "fd00:ffff::1") == []


def test_what_nft_refuses_is_said(bare_nets: Nets) -> None:
    """Nft's own words, and nothing of it is in force."""
    nets = bare_nets
    with pytest.raises(PeerError, match=r"refused the egress rules with status 1: .*syntax error"):
        nets.near.ask("nft", text="table inet minifram { chain output { nonsense } }")
    with pytest.raises(PeerError, match="non-zero exit status"):  # there is no table
        nets.counted()
    with pytest.raises(PeerError, match="RulesError: nowhere-nft cannot be started"):
        nets.near.ask("load_by", nft="nowhere-nft")
    with pytest.raises(PeerError, match=r"RulesError: the egress rules /nowhere/egress\.nft cannot be read"):
        nets.near.ask("load_from", folder="/nowhere")


def test_the_rules_need_no_list_of_protocols(bare_nets: Nets) -> None:
    """A small image has no /etc/protocols and no /etc/services: nft must not have to look a name up."""
    nets = bare_nets
    path = nets.folder / "rules.nft"
    path.write_text(rules_text(EXITS._replace(mode="door")))
    hide = "for file in /etc/protocols /etc/services; do [ ! -e $file ] || mount --bind /dev/null $file; done"
    for check, good in (('nft --check --file "$0"', True), ("! grep -q . /etc/protocols", True), ("false", False)):
        command = ["unshare", "--mount", "sh", "-c", f"{hide} && {check}", str(path)]
        status, told = nets.near.ask("run", command=command)
        assert (status == 0) == good, told


def test_there_is_no_moment_without_rules(open_nets: Nets) -> None:
    """While they are loaded again and again, not one packet of hundreds of attempts gets out."""
    nets = open_nets
    # Not by TCP: of more than about a thousand rejections a second the kernel does not tell, and TCP then waits.
    words = {"to": "10.1.2.3", "port": 4433, "times": 30000}
    ended = nets.near.ask("reload_while", name="agent", how="many_datagrams", words=words, times=5)
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


def test_silence_is_not_how_it_ends(open_nets: Nets) -> None:
    """A program that knows nothing of error queues hears of a rejection as well: at once by IPv4, soon by IPv6."""
    assert open_nets.try_as("agent", "connect_plainly", to="10.1.2.3", port=443) == "EHOSTUNREACH"
    assert open_nets.try_as("agent", "connect_plainly", to="fc00::1", port=443) == "EACCES"
    assert open_nets.try_as("agent", "connect_plainly", to=PUBLIC6, port=443) == REACHED
