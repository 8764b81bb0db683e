"""What was counted, read back: the rules' counters and the resolver's log."""

from __future__ import annotations

import json

import pytest

from host.egress import UNPRINTABLE, Asked, count_names, parse_counters

LISTED = {
    "nftables": [
        {"metainfo": {"version": "1.0.6"}},
        {"counter": {"family": "inet", "name": "private", "table": "minifram", "packets": 3, "bytes": 180}},
        {"counter": {"family": "inet", "name": "protocol", "table": "minifram", "packets": 5, "bytes": 100}},
        {"counter": {"family": "inet", "name": "cell_out", "table": "minifram", "packets": 9, "bytes": 900}},
        {"counter": {"family": "inet", "name": "canary", "table": "minifram", "packets": 7, "bytes": 420}},
        {"counter": {"family": "inet", "name": "dns", "table": "minifram", "packets": 0, "bytes": 0}},
    ]
}


def test_counters_by_name() -> None:
    expected = {"private": 3, "protocol": 5, "cell_out": 9, "canary": 7, "dns": 0}
    assert parse_counters(json.dumps(LISTED)) == expected


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
