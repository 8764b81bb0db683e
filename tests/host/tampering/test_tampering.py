"""Every attempt on the PM's git comes to what the table says; the table's rows are these tests."""

from __future__ import annotations

import pytest

from tests.host.tampering.acts import ACTS, Act
from tests.host.tampering.examination import VECTORS, NewSite, examine, examine_act
from tests.host.tampering.vector import Vector


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector.line} {vector.attempt}")
def test_what_is_planted_runs_nothing_and_leads_nowhere(vector: Vector, new_site: NewSite) -> None:
    """The verbs refuse it by name or work as if it were not there, doctor finds it, and plain git shows what it is."""
    row = examine(vector, new_site)
    assert row.seen == row.expected


@pytest.mark.parametrize("act", ACTS, ids=lambda act: f"{act.line} {act.attempt}")
def test_words_and_files_of_the_agent_are_data(act: Act, new_site: NewSite) -> None:
    """Nothing that it writes decides, steers, or runs."""
    row = examine_act(act, new_site)
    assert row.seen == row.expected
