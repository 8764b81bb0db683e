"""The table of attempts, row by row (`table`)."""

from __future__ import annotations

import collections

import pytest

from host.egress import LET_THROUGH
from tests.egress.far_end import PUBLIC4, PUBLIC6
from tests.egress.namespaces import Nets
from tests.egress.table import Result, Row, Table, rows, run

pytestmark = pytest.mark.heavy

ROWS = rows()


@pytest.fixture(scope="module")
def table(nets: Nets) -> Table:
    return run(nets, ROWS)


@pytest.fixture(scope="module")
def results(table: Table) -> dict[str, Result]:
    return {result.row.id: result for result in table.results}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row(row: Row, results: dict[str, Result]) -> None:
    """Without the rules it reaches the far end; with them it does, or is rejected, counted, and nothing arrives."""
    assert results[row.id].problem == ""


def test_nothing_else_arrives(table: Table) -> None:
    """No answer of the kernel's, no retry, nothing by a detour: but for what is left of other tests' connections."""
    assert {packet.destination for packet in table.strays} <= {PUBLIC4, PUBLIC6}


def test_every_rule_has_an_attempt(open_nets: Nets) -> None:
    """What counts rejections is counted up by some row, or by a test of its own."""
    elsewhere = {"own_address", "web_to_git", "dns_forged", "dns_limit", "flood", "inbound", "forwarded"}
    known = set(open_nets.counted()) - LET_THROUGH
    assert known - {row.rule for row in ROWS} == elsewhere


def test_every_line_of_the_attacks_on_the_network_has_rows() -> None:
    """By its number in spec/ATTACKS.md."""
    counted = collections.Counter(row.attack for row in ROWS)
    assert counted.keys() == {"S30", "S31", "S32", "S33", "S34", "S35", "S38", "S39", "open"}
    assert sum(counted.values()) > 400


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
