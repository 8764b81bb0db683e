"""The narrow variant: listed names alone are resolved, and only where they lead can the cell connect (S43, S44)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.egress.attempts import REACHED
from tests.egress.far_end import ECHO_PORT, PROVIDER, PUBLIC4, PUBLIC6
from tests.egress.namespaces import Nets

pytestmark = pytest.mark.heavy

LISTED = {"mode": "allowlist", "allow": ["index.example", "six.example"], "keep": ["api.provider.example"]}
NO_SUCH_NAME = 3


@pytest.fixture
def narrow(nets: Nets) -> Iterator[Nets]:
    nets.near.ask("load", mode="allowlist")
    nets.near.ask("start_resolver", **LISTED)
    nets.far.ask("forget")
    nets.arrived()
    yield nets
    nets.near.ask("stop_resolver")


def gone(nets: Nets, address: str, seconds: float = 15.0) -> bool:
    """The address leaves its set by itself; looking at the set does not keep it there."""
    deadline = time.monotonic() + seconds
    while address in nets.near.ask("listed", name="listed4_0"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_listed_names_are_reached_and_nothing_else(narrow: Nets) -> None:
    """With the names below them, by IPv4 and IPv6; what was not resolved is closed, even the same address."""
    nets = narrow
    assert nets.try_as("agent", "tcp", to=PUBLIC4, port=443) == "EHOSTUNREACH"
    assert nets.try_as("agent", "tcp", to=PUBLIC6, port=443) == "EACCES"
    assert nets.try_as("agent", "tcp", to="93.184.216.36", port=443) == "EHOSTUNREACH"
    assert nets.arrived("93.184.216.36") == []
    assert nets.try_as("agent", "named", name="index.example", port=443) == REACHED
    assert nets.try_as("agent", "named", name="files.index.example", port=443) == REACHED
    assert nets.try_as("agent", "dns", name="six.example", qtype="AAAA") == [0, [PUBLIC6]]
    assert nets.try_as("agent", "tcp", to=PUBLIC6, port=443) == REACHED
    nets.arrived()
    assert nets.try_as("agent", "tcp", to="93.184.216.35", port=443) == "EHOSTUNREACH"
    assert nets.try_as("agent", "dns", name="www.other.example") == [NO_SUCH_NAME, []]
    assert nets.try_as("agent", "dns", name="index.example.evil.example") == [NO_SUCH_NAME, []]
    assert nets.try_as("agent", "dns", name="notindex.example") == [NO_SUCH_NAME, []]
    assert nets.counted()["not_listed"] == 4
    names = {name for name, _ in nets.far.ask("take_questions")}
    assert names == {"index.example", "files.index.example", "six.example"}


def test_the_other_rules_stand(narrow: Nets) -> None:
    """Listed or not: private addresses, other ways than TCP, and DNS stay closed."""
    nets = narrow
    assert nets.try_as("agent", "named", name="index.example", port=443) == REACHED
    for address in ("10.1.2.3", "169.254.169.254"):
        nets.near.ask("run", command=["nft", "add", "element", "inet", "minifram", "listed4_0", f"{{ {address} }}"])
        assert nets.try_as("agent", "tcp", to=address, port=443) == "EHOSTUNREACH"
    assert nets.try_as("agent", "dns", name="evil.index.example")[1] == []
    assert nets.try_as("agent", "udp", to=PUBLIC4, port=443) == "EPERM"
    assert nets.try_as("agent", "udp", to=PUBLIC4, port=53) == "EPERM"
    assert nets.try_as("agent", "tcp", to=PUBLIC4, port=53) == "EHOSTUNREACH"
    counted = nets.counted()
    assert [counted[name] for name in ("private_10", "link_local", "quic", "dns")] == [1, 1, 1, 2]


def test_the_keep_reaches_the_model_and_the_cell_does_not(narrow: Nets) -> None:
    """Its name is known to both; the connection is the keep's alone."""
    nets = narrow
    assert nets.try_as("keep", "named", name="api.provider.example", port=443) == REACHED
    assert nets.try_as("agent", "named", name="api.provider.example", port=443) == "EHOSTUNREACH"
    assert PROVIDER not in nets.near.ask("listed", name="listed4_0")
    assert nets.counted()["keep_out"] > 0
    assert nets.try_as("keep", "tcp", to="10.1.2.3", port=443) == "EHOSTUNREACH"


def test_an_address_leaves_the_list(nets: Nets) -> None:
    """When nobody resolved or used it for a while; in use it stays, and resolving brings it back."""
    nets.near.ask("load", mode="allowlist", replaced={"timeout 10m": "timeout 1s"})
    nets.near.ask("start_resolver", **LISTED)
    assert nets.try_as("agent", "dns", name="index.example")[0] == 0
    assert nets.try_as("agent", "hold", key="used", to=PUBLIC4, port=ECHO_PORT) == REACHED
    for number in range(8):
        assert nets.try_as("agent", "say", key="used", text=f"{number}") == REACHED
        assert nets.try_as("agent", "hear", key="used", seconds=5.0) == f"{number}"
        time.sleep(0.3)
    nets.hang_up()
    assert gone(nets, PUBLIC4)
    assert nets.try_as("agent", "tcp", to=PUBLIC4, port=443) == "EHOSTUNREACH"
    deadline = time.monotonic() + 15  # the resolver remembers its answer for a few seconds
    while nets.try_as("agent", "named", name="index.example", port=443) != REACHED:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    nets.near.ask("stop_resolver")


def test_without_its_capability_the_resolver_lists_nothing(nets: Nets) -> None:
    """It fails closed: the name is resolved, and leads nowhere."""
    nets.near.ask("load", mode="allowlist")
    nets.near.ask("start_resolver", **LISTED, may_list=False)
    assert nets.try_as("agent", "dns", name="index.example") == [0, [PUBLIC4]]
    assert nets.try_as("agent", "tcp", to=PUBLIC4, port=443) == "EHOSTUNREACH"
    assert nets.try_as("keep", "tcp", to=PUBLIC4, port=443) == REACHED
    nets.near.ask("stop_resolver")


def test_the_cell_writes_nothing_into_questions_for_the_model(narrow: Nets) -> None:
    """A name below the model's own would carry what the cell put into it to whoever answers there; a listed one may."""
    nets = narrow
    assert nets.try_as("agent", "dns", name="stolen.api.provider.example") == [NO_SUCH_NAME, []]
    assert nets.try_as("agent", "dns", name="a.b.API.provider.example", qtype="TXT")[1] == []
    assert nets.try_as("agent", "dns", name="api.provider.example") == [0, [PROVIDER]]
    assert nets.try_as("agent", "dns", name="files.index.example")[0] == 0
    assert {name.lower() for name, _ in nets.far.ask("take_questions")} == {
        "api.provider.example",
        "files.index.example",
    }


def test_an_answer_leads_to_no_closed_address(narrow: Nets) -> None:
    """What is passed on, and listed, is open."""
    nets = narrow
    for name in ("shared.index.example", "resolver.index.example", "evil.index.example"):
        assert nets.try_as("agent", "dns", name=name)[1] == [], name
    assert "100.64.9.9" not in nets.near.ask("listed", name="listed4_0")
    assert nets.try_as("agent", "named", name="index.example", port=443) == REACHED


def test_what_one_name_opens_is_bounded(nets: Nets) -> None:
    """Whoever answers for a listed name opens so many addresses and no more, and takes nothing from other names."""
    nets.near.ask("load", mode="allowlist", replaced={"size 256": "size 2"})
    nets.near.ask("start_resolver", **LISTED | {"allow": ["many.example", "index.example"]})
    for number in range(1, 5):
        assert nets.try_as("agent", "dns", name=f"n{number}.many.example") == [0, [f"93.184.217.{number}"]]
    reached = [nets.try_as("agent", "tcp", to=f"93.184.217.{number}", port=443) for number in range(1, 5)]
    assert reached[:2] == [REACHED, REACHED]
    assert REACHED not in reached[2:]
    assert nets.try_as("agent", "named", name="index.example", port=443) == REACHED
    nets.near.ask("stop_resolver")
