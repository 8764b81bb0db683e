"""What is given to nft, as text: the defines say what they are told, and nothing that is no address gets into them."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.container.machine import networks_of
from infra.keep.egress.rules import Exits, prelude, rules_text
from infra.keep.git_door import setup

EXITS = Exits(990, 970, ("10.0.2.3", "fd00::3"))


def test_the_prelude_says_who_and_with_whom() -> None:
    """Each define on a line of its own; what there is none of is an empty set."""
    exits = EXITS._replace(host=("198.4.4.4", "2a00:1450:4001::/48", "fe80::1"))
    assert prelude(exits).splitlines() == [
        "define resolver_uid = 990",
        "define web_uid = 970",
        "define upstream4 = { 10.0.2.3 }",
        "define host4 = { 198.4.4.4/32 }",
        "define upstream6 = { fd00::3 }",
        "define host6 = { 2a00:1450:4001::/48, fe80::1/128 }",
    ]
    without = Exits(990, 970, ("1.1.1.1",))
    assert "define upstream6 = {  }\n" in prelude(without)


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


BEHIND_DOORS = EXITS._replace(mode="door")


def test_a_mode_comes_on_top() -> None:
    """One text, so that nft takes all files in one transaction."""
    assert rules_text(BEHIND_DOORS).startswith(rules_text(EXITS))


def test_every_define_is_used_and_every_use_defined() -> None:
    """Nothing is left over in the files."""
    for exits in (EXITS, BEHIND_DOORS):
        text = rules_text(exits)
        assert set(re.findall(r"^define (\w+)", text, re.M)) == set(re.findall(r"^[^#\n]*?\$(\w+)", text, re.M))


def test_every_counter_is_used() -> None:
    """A name that is counted is the name of a rule, and the other way round."""
    for exits in (EXITS, BEHIND_DOORS):
        text = "\n".join(line.partition("#")[0] for line in rules_text(exits).splitlines())
        made = set(re.findall(r"^ *counter (\w+) \{", text, re.M))
        assert made == set(re.findall(r'"(\w+)"(?= (?:goto refused|drop|accept)|,| \}|$)', text, re.M))


def test_the_rules_know_the_git_daemons_port() -> None:
    """It is written there as a number."""
    assert f'tcp dport {setup.PORT} counter name "web_to_git" goto refused' in rules_text(EXITS)


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
