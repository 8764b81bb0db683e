"""The table of attempts, row by row (`table`)."""

from __future__ import annotations

import pytest

from host.egress import LET_THROUGH
from tests.egress.far_end import PUBLIC4, PUBLIC6
from tests.egress.namespaces import Nets
from tests.egress.table import Table, rows, run

pytestmark = pytest.mark.heavy

ROWS = rows()


@pytest.fixture(scope="module")
def table(nets: Nets) -> Table:
    return run(nets, ROWS)


ATTACKS = ("S30", "S31", "S32", "S33", "S34", "S38", "S39", "open")
"""Lines of spec/ATTACKS.md, and what must stay open."""
CASES = [pytest.param(each, marks=[pytest.mark.attack(each)] if each != "open" else []) for each in ATTACKS]


@pytest.mark.parametrize("attack", CASES)
def test_rows(attack: str, table: Table) -> None:
    """Without the rules each reaches the far end; with them it does, or is rejected, counted, and nothing arrives."""
    results = [each for each in table.results if each.row.attack == attack]
    assert results
    assert {each.row.id: each.problem for each in results if each.problem} == {}


@pytest.mark.attack("S30")
def test_nothing_else_arrives(table: Table) -> None:
    """No answer of the kernel's, no retry, nothing by a detour: but for what is left of other tests' connections."""
    assert {packet.destination for packet in table.strays} <= {PUBLIC4, PUBLIC6}


def test_every_rule_has_an_attempt(open_nets: Nets) -> None:
    """What counts rejections is counted up by some row, or by a test of its own."""
    elsewhere = {"own_address", "web_to_git", "dns_forged", "dns_limit", "flood", "inbound", "forwarded"}
    known = set(open_nets.counted()) - LET_THROUGH
    assert known - {row.rule for row in ROWS} == elsewhere


def test_a_row_that_gets_through_is_a_failed_one(open_nets: Nets) -> None:
    """The table can fail: with the rules gone, with one that is missing, and with a packet that no rule counted."""
    row = next(row for row in ROWS if row.rule == "special" and row.how == "tcp")
    passed = run(open_nets, [row]).results[0]
    assert passed.problem == ""
    assert passed._replace(control="silent").problem
    assert passed._replace(control_arrived=False).problem
    assert passed._replace(arrived=1).problem
    assert passed._replace(counted={}).problem
    assert passed._replace(counted={"special": 1, "private": 1}).problem
    assert passed._replace(outcome="silent").problem
    assert passed._replace(outcome="reached").problem
