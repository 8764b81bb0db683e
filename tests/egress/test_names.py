"""The keep's resolver: the only one who asks, of whom, for what, how much; and what the PM can see of it (S36-S38)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from host.egress import Asked, count_names
from tests.egress.attempts import REACHED
from tests.egress.far_end import PUBLIC4, PUBLIC6
from tests.egress.namespaces import Nets

pytestmark = pytest.mark.heavy

NO_SUCH_NAME = 3


@pytest.fixture
def resolving(open_nets: Nets) -> Iterator[Nets]:
    """The rules, and the resolver behind them."""
    open_nets.near.ask("start_resolver")
    open_nets.far.ask("forget")
    yield open_nets
    open_nets.near.ask("stop_resolver")


def asked(nets: Nets) -> list[str]:
    """The names that came to the upstream."""
    return [name.lower() for name, _ in nets.far.ask("take_questions")]


def counted(nets: Nets) -> dict[str, Asked]:
    return count_names(nets.near.ask("resolver_log"))


def test_names_are_resolved_for_everybody(resolving: Nets) -> None:
    """By UDP and TCP, for IPv4 and IPv6; and then they are reached."""
    nets = resolving
    assert nets.try_as("agent", "dns", name="www.example") == [0, [PUBLIC4]]
    assert nets.try_as("agent", "dns", name="six.example", qtype="AAAA") == [0, [PUBLIC6]]
    assert nets.try_as("keep", "dns", name="www.example") == [0, [PUBLIC4]]
    assert nets.try_as("agent", "tcp", to="127.0.0.1", port=53) == REACHED
    assert nets.try_as("agent", "named", name="www.example", port=443) == REACHED
    assert {"www.example", "six.example", "a.example"} <= set(asked(nets))
    counted = nets.counted()
    assert counted["dns_out"]
    assert counted["dns_in"]
    assert not any(counted[name] for name in ("private", "dns", "dns_limit"))


@pytest.mark.attack("S38")
def test_only_the_resolver_answers_from_its_port(resolving: Nets) -> None:
    """Anybody may bind the port beside it and be asked in its place; what they answer does not arrive."""
    nets = resolving
    for address in ("127.0.0.1", "::1"):
        before = nets.counted()["dns_forged"]
        for who in ("agent", "keep"):
            assert nets.try_as(who, "answer_from", port=53, address=address) == "EPERM", (who, address)
            assert nets.try_as(who, "answer_from", port=5300, address=address) == REACHED, (who, address)
        assert nets.counted()["dns_forged"] == before + 2
        assert nets.try_as("resolver", "answer_from", port=53, address=address) == REACHED
    assert nets.try_as("keep", "dns", name="www.example") == [0, [PUBLIC4]]


def test_the_resolver_listens_on_loopback_alone(resolving: Nets) -> None:
    listening = resolving.near.ask("run", command=["ss", "-Hlnptu"])[1].splitlines()
    assert {line.split()[4] for line in listening if "dnsmasq" in line} == {"127.0.0.1:53"}


@pytest.mark.attack("S31")
def test_inner_names_are_nobodys_business(resolving: Nets) -> None:
    """Names of the machine's own network, cloud and containers do not exist, and are not asked for upstream."""
    nets = resolving
    for name in (
        *("nas.lan", "printer.local", "db.internal", "metadata.google.internal", "host.docker.internal"),
        *("host.containers.internal", "git.corp", "router.home.arpa", "x.onion", "localhost", "nas", "x.test"),
        *("dns.google", "cloudflare-dns.com", "use-application-dns.net"),
    ):
        assert nets.try_as("agent", "dns", name=name)[0] == NO_SUCH_NAME, name
    for name in ("4.3.2.10.in-addr.arpa", "254.169.254.169.in-addr.arpa"):
        assert nets.try_as("agent", "dns", name=name, qtype="PTR")[0] == NO_SUCH_NAME, name
    assert nets.try_as("agent", "dns", name="lan.example") == [0, [PUBLIC4]]
    assert asked(nets) == ["lan.example"]


@pytest.mark.attack("S36")
def test_a_name_that_changes_to_a_private_address_leads_nowhere(resolving: Nets) -> None:
    """The resolver keeps back the private address; where it does not know it for one, the packet rules do."""
    nets = resolving
    assert nets.try_as("agent", "named", name="rebind.example", port=80) == REACHED
    assert nets.try_as("agent", "named", name="rebind.example", port=80).startswith("no such name")
    assert nets.try_as("agent", "named", name="metadata.example", port=80).startswith("no such name")
    assert nets.try_as("agent", "named", name="rebind-shared.example", port=80) == REACHED
    assert nets.try_as("agent", "named", name="rebind-shared.example", port=80) == "EHOSTUNREACH"
    assert nets.counted()["private"] == 1
    assert nets.arrived("100.64.9.9", "10.9.8.7", "169.254.169.254") == []
    log = nets.near.ask("resolver_log")
    assert any("possible DNS-rebind attack detected: rebind.example" in line for line in log)

    nets.near.ask("unload")
    assert nets.try_as("agent", "named", name="rebind-shared.example", port=80) == REACHED


@pytest.mark.attack("S37")
def test_a_tunnel_shows(resolving: Nets) -> None:
    """Its domain stands at the head of the figures, with what it carried; an ordinary name does not."""
    nets = resolving
    payload = "x" * 50
    names = [f"{number:04d}{payload}.data.tunnel.example" for number in range(60)]
    nets.try_as("agent", "many_names", names=names, qtype="TXT")
    for name in ("www.shop.example", "www.shop.example", "pypi.org"):
        nets.try_as("agent", "dns", name=name)
    top = counted(nets)
    assert next(iter(top)) == "tunnel.example"
    assert top["tunnel.example"].questions == 60
    assert top["tunnel.example"].bytes >= 60 * 58
    assert top["shop.example"] == Asked(questions=2, bytes=6)


@pytest.mark.attack("S37")
def test_a_name_as_long_as_a_tunnels_is_not_sent(resolving: Nets) -> None:
    """Neither by UDP nor by TCP, over which the resolver passes on what came by TCP."""
    nets = resolving
    long = ".".join(["x" * 60] * 3) + ".tunnel.example"
    most = ".".join(["x" * 60] * 2) + ".tunnel.example"
    assert nets.try_as("agent", "dns", name=most) == [0, [PUBLIC4]]
    status, addresses = nets.try_as("agent", "dns", name=long, seconds=0.5)
    assert (status != 0, addresses) == (True, [])
    nets.try_as("agent", "dns_by_tcp", name=long, seconds=0.5)
    assert nets.try_as("agent", "dns_by_tcp", name=f"y.{most}", seconds=2.0) == [0, [PUBLIC4]]
    assert asked(nets) == [most, f"y.{most}"]
    assert nets.counted()["dns_limit"] >= 2

    nets.near.ask("unload")
    assert nets.try_as("agent", "dns", name=long) == [0, [PUBLIC4]]


@pytest.mark.attack("S37")
def test_names_go_out_at_a_bounded_rate(resolving: Nets) -> None:
    """About 20 a second after the first 300; without the rules as many as one likes."""
    nets = resolving
    names = [f"n{number}.tunnel.example" for number in range(400)]
    started = time.monotonic()
    nets.try_as("agent", "many_names", names=names, qtype="A")
    most = 300 + 20 * (time.monotonic() - started + 1)
    sent = len(asked(nets))
    assert 250 < sent <= most
    assert nets.counted()["dns_limit"] > 0

    nets.near.ask("unload")
    nets.try_as("agent", "many_names", names=[f"m{name}" for name in names], qtype="A")
    assert len(asked(nets)) >= 390
