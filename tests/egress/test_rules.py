"""The rules' text, the resolver's command line, the settings behind both, what was counted, and who is told of it."""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from host.container.machine import networks_of
from host.egress import UNPRINTABLE, Asked, count_names, parse_counters
from infra.keep.egress import packages
from infra.keep.egress.rules import Exits, prelude
from infra.keep.services import children
from infra.keep.settings.schema import EgressMode
from infra.keep.supervision.preparation import Preparation
from infra.shared.identity import OURS
from infra.shared.network import problem_with_host_name
from infra.shared.paths import Paths
from tests.keep.supervision.test_boot_files import boot_of

EXITS = Exits(990, 970, ("10.0.2.3", "fd00::3"))


@pytest.mark.parametrize(
    "exits",
    [
        *(EXITS._replace(upstreams=(bad,)) for bad in ("", "dns.example", "10.0.2.3:53", "10.0.2.3 }\nflush ruleset")),
        *(EXITS._replace(host=(bad,)) for bad in ("example.org", "1.2.3.4/33", "1.2.3.4 }")),
    ],
)
def test_what_is_no_address_is_refused(exits: Exits) -> None:
    """Before nft sees any of it."""
    with pytest.raises(ValueError, match=r"."):
        prelude(exits)


@given(st.lists(st.ip_addresses()), st.lists(st.text()))
def test_no_text_gets_into_the_defines(addresses: list[ipaddress.IPv4Address], words: list[str]) -> None:
    """Whatever is given as an address, a define holds addresses or there is none."""
    try:
        text = prelude(Exits(990, 970, ("10.0.2.3",), host=(*map(str, addresses), *words)))
    except ValueError:
        return
    for line in text.splitlines():
        assert re.fullmatch(r"define [a-z_0-9]+ = ([0-9a-f:./]+|\{ [0-9a-f:./, ]*\})", line)


def test_the_machines_networks() -> None:
    """Public addresses with their networks; what is private is closed anyway; one that is too wide counts alone."""
    listed = """[{"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "prefixlen": 8}]},
        {"ifname": "eth0", "addr_info": [{"local": "84.17.3.9", "prefixlen": 24},
            {"local": "192.168.1.2", "prefixlen": 24}, {"local": "2003:e1:5f00::7", "prefixlen": 64},
            {"local": "fe80::7", "prefixlen": 64}, {"local": "fd12::7", "prefixlen": 64}, {}]},
        {"ifname": "ppp0", "addr_info": [{"local": "84.17.9.9", "prefixlen": 0}]}, {"ifname": "none"}]"""
    assert networks_of(listed) == ("84.17.3.0/24", "84.17.9.9/32", "2003:e1:5f00::/64")
    assert networks_of("[]") == ()
    for bad in ("", "{", "[3]", '[{"addr_info": [{"local": "x", "prefixlen": 8}]}]'):
        with pytest.raises(ValueError, match="the machine's addresses cannot be understood"):
            networks_of(bad)


@given(st.one_of(st.text(), st.text(st.sampled_from("ab1-_./#*@:, \n"))))
def test_what_passes_for_a_name_is_one_word_of_an_option(name: str) -> None:
    """Nothing that means something to the resolver's command line gets through."""
    if problem_with_host_name(name) is None:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
        assert "." in name.strip(".")
        assert name[0] not in "-."


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nftables": 3}', '{"nftables": [{"counter": {"name": "x"}}]}'])
def test_a_list_that_cannot_be_understood_is_an_error(text: str) -> None:
    """With what was found."""
    with pytest.raises(ValueError, match="cannot be understood"):
        parse_counters(text)


def test_lines_of_the_log() -> None:
    """Questions by the two last labels, who carried most first; all other lines count nothing, nor do names that look
    like lines."""
    found = count_names(
        [
            "dnsmasq[7]: started, version 2.90 cachesize 1000",
            "dnsmasq[7]: query[A] a.Www.example.org. from 127.0.0.1",
            "dnsmasq[7]: forwarded www.example.org to 10.0.2.3",
            "dnsmasq[7]: query[A] example.org from 127.0.0.1\n",
            "dnsmasq[7]: query[A] com from 127.0.0.1",
            "dnsmasq[7]: query[type=65280] a b from c.tunnel.example from 127.0.0.1",
            "dnsmasq[7]: query[A] <name unprintable> from 127.0.0.1",
            "dnsmasq[7]: config nas.lan is NXDOMAIN",
            "door.started",
        ]
    )
    assert list(found.items()) == [
        (UNPRINTABLE, Asked(1, 253)),
        ("tunnel.example", Asked(1, 10)),
        ("example.org", Asked(2, 4)),
        ("com", Asked(1, 0)),
    ]


SHOW = "import os; print(os.environ.get('PIP_INDEX_URL'), 'HTTPS_PROXY' in os.environ)"


def test_it_is_told_in_mode_door_alone(tmp_path: Path) -> None:
    """The runner and its children, and the installer of environments; otherwise nothing is in either."""
    places = Paths(*(str(tmp_path / name) for name in ("bot", "remote.git", "run", "var")))
    os.makedirs(places.main_checkout)
    modes: dict[EgressMode, str] = {
        "door": "http://127.0.0.1:3128/pypi.org/simple/ False",
        "open": "None False",
    }
    for mode, shown in modes.items():
        also = packages.environment(mode)
        log = tmp_path / mode
        with log.open("wb") as output:
            command = [sys.executable, "-c", SHOW]
            assert not children.spawn(boot_of(places, "a" * 32), command, output.fileno(), also=also).wait()
        assert log.read_text().strip() == shown
        step = Preparation(places, OURS, structlog.stdlib.get_logger(), also).installing(places.main_checkout, 1.0)
        assert ("PIP_INDEX_URL" in step.env) is bool(packages.port(mode)) is (mode == "door")
