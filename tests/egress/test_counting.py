"""What was counted, read back: the rules' counters and the resolver's log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.container.counters import Count, CountersError, parse_counters, rejected
from host.container.query_log import OTHERS, UNPRINTABLE, Asked, QueryLog, split_name

LISTED = {
    "nftables": [
        {"metainfo": {"version": "1.0.6"}},
        {"counter": {"family": "inet", "name": "private_10", "table": "minifram", "packets": 3, "bytes": 180}},
        {"counter": {"family": "inet", "name": "quic", "table": "minifram", "packets": 5, "bytes": 100}},
        {"counter": {"family": "inet", "name": "cell_out", "table": "minifram", "packets": 9, "bytes": 900}},
        {"counter": {"family": "inet", "name": "canary", "table": "minifram", "packets": 7, "bytes": 420}},
        {"counter": {"family": "inet", "name": "dns", "table": "minifram", "packets": 0, "bytes": 0}},
    ]
}


def test_counters_by_name() -> None:
    """All of them; and of those that stopped something, the busiest first."""
    found = parse_counters(json.dumps(LISTED))
    assert found["private_10"] == Count(3, 180)
    assert found["dns"] == Count(0, 0)
    assert len(found) == 5
    assert list(rejected(found)) == ["quic", "private_10"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nftables": 3}', '{"nftables": [{"counter": {"name": "x"}}]}'])
def test_a_list_that_cannot_be_understood_is_an_error(text: str) -> None:
    """With what was found."""
    with pytest.raises(CountersError, match="cannot be understood"):
        parse_counters(text)


@pytest.mark.parametrize(
    ("name", "registered", "front"),
    [
        ("pypi.org", "pypi.org", 0),
        ("files.PyPI.org.", "pypi.org", 5),
        ("a.bc.def.example.com", "example.com", 6),
        ("www.shop.co.uk", "shop.co.uk", 3),
        ("co.uk", "co.uk", 0),
        ("x.t.co", "t.co", 1),
        ("abcd.ev.il", "ev.il", 4),
        ("4.3.2.1.in-addr.arpa", "in-addr.arpa", 4),
        ("com", "com", 0),
        ("", "", 0),
        ("<name unprintable>", UNPRINTABLE, 253),
    ],
)
def test_what_stands_in_front_of_the_registered_name(name: str, registered: str, front: int) -> None:
    """The two last labels, three where the second is a country's own division; the rest counts in bytes."""
    assert split_name(name) == (registered, front)


def test_lines_of_the_log() -> None:
    """Questions and what was sent of them; all other lines count nothing, nor do names that look like lines."""
    log = QueryLog()
    log.note_all(
        [
            "dnsmasq[7]: started, version 2.90 cachesize 1000",
            "dnsmasq[7]: query[A] www.example.org from 127.0.0.1",
            "dnsmasq[7]: forwarded www.example.org to 10.0.2.3",
            "dnsmasq[7]: reply www.example.org is 93.184.216.34",
            "dnsmasq[7]: query[A] www.example.org from 127.0.0.1\n",
            "dnsmasq[7]: cached www.example.org is 93.184.216.34",
            "dnsmasq[7]: query[type=65280] a b from c.tunnel.example from 127.0.0.1",
            "dnsmasq[7]: forwarded <name unprintable> to fd00::3",
            "dnsmasq[7]: config nas.lan is NXDOMAIN",
            "door.started",
        ]
    )
    assert log.top() == {
        UNPRINTABLE: Asked(0, 1, 253),
        "example.org": Asked(2, 1, 3),
        "tunnel.example": Asked(1, 0, 0),
    }
    assert log.total() == Asked(3, 2, 256)
    assert log.top(1) == {UNPRINTABLE: Asked(0, 1, 253), OTHERS: Asked(3, 1, 3)}


def test_a_tunnel_is_not_lost_among_many_names() -> None:
    """Thousands of names pass; the one that carries much keeps its line, the rest is added up."""
    log = QueryLog(most_names=50)
    for number in range(5000):
        log.note(f"dnsmasq[7]: forwarded n{number}.org to 10.0.2.3")
        if number % 10 == 0:
            log.note(f"dnsmasq[7]: forwarded {'x' * 40}{number}.tunnel.example to 10.0.2.3")
    top = log.top(1)
    assert top["tunnel.example"].sent == 500
    assert top[OTHERS].sent == 5000


@given(st.lists(st.tuples(st.sampled_from(["query[A]", "forwarded"]), st.text(max_size=40)), max_size=60))
def test_no_line_is_lost_and_memory_is_bounded(lines: list[tuple[str, str]]) -> None:
    """However names look: the sum is right, and there are never more lines than agreed."""
    log = QueryLog(most_names=5)
    good = 0
    for kind, name in lines:
        shown = name.replace("\n", "").replace("\r", "")
        line = f"dnsmasq[1]: {kind} {shown} {'from' if kind != 'forwarded' else 'to'} 127.0.0.1"
        before = log.total()
        log.note(line)
        good += log.total() != before
    found = log.top(100)
    assert len(found) <= 6
    assert log.total().questions + log.total().sent == good
    assert sum(one.sent + one.questions for one in found.values()) == good
