"""The closed variant: the cell reaches loopback and nothing else, names included; the web door and the keep go out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.egress.attempts import REACHED
from tests.egress.far_end import PUBLIC4, PUBLIC6
from tests.egress.namespaces import Nets

pytestmark = pytest.mark.heavy

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


def test_loopback_stays_the_cell_s(walled: Nets) -> None:
    """Its own servers and the keep's; from there and to there."""
    assert walled.try_as("keep", "listen", key="door", port=7004) == REACHED
    for to in ("127.0.0.1", "127.9.9.9"):
        assert walled.try_as("agent", "hold", key=to, to=to, port=7004) == REACHED
    assert walled.try_as("agent", "hold", key="other", to="10.0.2.100", port=7004) in WALLED


def test_the_web_door_and_the_keep_go_out(walled: Nets) -> None:
    """By names as well, to public addresses by TCP alone, and not to the git daemon."""
    nets = walled
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
    assert nets.try_as("web", "tcp", to="127.0.0.1", port=9418) == "EHOSTUNREACH"
    assert nets.try_as("agent", "tcp", to="127.0.0.1", port=9418) == "ECONNREFUSED"


def test_the_web_door_is_bound_by_the_open_mode_too(nets: Nets) -> None:
    """To every public address."""
    nets.near.ask("load")
    assert nets.try_as("web", "tcp", to=PUBLIC4, port=443) == REACHED
    assert nets.try_as("web", "tcp", to="10.1.2.3", port=443) == "EHOSTUNREACH"
    assert nets.counted()["web_out"] > 0
