"""What the benchmarks say of their measurements: the pure parts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import bodies, steps
from bench.figure_handover import FIRST_WAIT, INTERPRETER, LATER_WAIT, OTHER, steps_between
from bench.figure_rehearsal import AFTER, BEFORE, parts
from bench.figure_start import import_times, no_sdk, top_names
from bench.peers import Missing, program
from bench.stamps import FIRST_LINE
from bench.tables import (
    Figure,
    Table,
    Verdict,
    ahead_of,
    at_most,
    distance,
    milliseconds,
    none_lost,
    render,
    spread,
    summary,
    times,
    times_row,
    worst_row,
)
from bench.timed_watcher import LAUNCH, WAIT, Span
from infra.shared.paths import Paths

SAMPLES = st.lists(st.floats(min_value=1e-6, max_value=1e4), min_size=1, max_size=50)


def test_spread_of_a_known_sample() -> None:
    """Median and quartiles lie between neighbours where they fall there; order does not matter."""
    assert spread([4.0, 1.0, 3.0, 2.0]) == (1.0, 1.75, 2.5, 3.25, 4.0, 4)
    assert spread([7.0]) == (7.0, 7.0, 7.0, 7.0, 7.0, 1)


@given(SAMPLES)
def test_spread_is_ordered_and_inside_the_sample(sample: list[float]) -> None:
    """Least, quarter, median, three quarters and most come in this order and never leave the sample."""
    seen = spread(sample)
    assert min(sample) == seen.least <= seen.low <= seen.median <= seen.high <= seen.most == max(sample)


def test_nothing_measured_is_an_error() -> None:
    """No round, no figure."""
    with pytest.raises(ValueError, match="at least one round"):
        spread([])


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0000123, "0.012"), (0.000999, "0.999"), (0.001, "1.00"), (0.0123, "12.3"), (0.1, "100"), (1.2345, "1234")],
)
def test_milliseconds_have_three_digits(seconds: float, shown: str) -> None:
    """Digits beyond the third are noise."""
    assert milliseconds(seconds) == shown


@pytest.mark.parametrize(("ratio", "shown"), [(0.5, "0.50x"), (3.111, "3.11x"), (21.06, "21.1x"), (430.4, "430x")])
def test_ratios_have_three_digits(ratio: float, shown: str) -> None:
    """As milliseconds."""
    assert times(ratio) == shown


def test_rows_hold_the_ratio_of_medians() -> None:
    """A row's ratio is that of its median to the reference's; the reference itself is 1x."""
    assert times_row("ours", [0.03, 0.02, 0.9], [0.01, 0.01, 0.5]) == (
        "ours",
        "30.0",
        "25.0-465",
        "20.0",
        "900",
        "3",
        "3.00x",
    )
    assert times_row("reference", [0.01])[-1] == "1x"


def test_a_row_of_the_worst_says_what_nearly_all_stay_below() -> None:
    """95 of a hundred are at most p95; the ratio is that of the medians."""
    hundred = [number / 1000 for number in range(1, 102)]
    assert worst_row("ours", hundred, [0.0255]) == ("ours", "1.00", "51.0", "96.0", "101", "101", "2.00x")


def test_nothing_lost_counts_only_where_something_was() -> None:
    """One that is lost is a miss, and so is a series in which nothing happened."""
    assert none_lost("reports", 0, 40, "seen").met is True
    assert none_lost("reports", 1, 40, "seen").met is False
    assert none_lost("reports", 0, 0, "seen").met is False


def test_a_goal_is_met_up_to_its_limit_and_missed_beyond() -> None:
    """`at most` includes the limit; what is over it is said plainly, with by how much."""
    assert at_most("start", [0.05], "pass", [0.01], 5.0).met is True
    missed = at_most("start", [0.06], "pass", [0.01], 5.0)
    assert missed.met is False
    assert "MISSED by 10.0 ms" in missed.text


def test_ahead_means_faster() -> None:
    """A draw is not ahead."""
    assert ahead_of("restart", [0.01], "other", [0.02]).met is True
    assert ahead_of("restart", [0.01], "other", [0.01]).met is False
    assert "MISSED" in ahead_of("restart", [0.03], "other", [0.02]).text


def test_a_distance_is_no_goal() -> None:
    """It is neither met nor missed."""
    assert distance("restart", [0.03], "other", [0.02]) == (
        None,
        "restart: 30.0 ms, 1.50x of other (20.0 ms); no goal, shown",
    )


def test_tables_are_aligned() -> None:
    """The first column to the left, numbers to the right, notes below."""
    table = Table("title", ("", "ms"), (("a", "1"), ("longer", "234")), ("said once",))
    assert render(table) == "title\n-----\n         ms\na         1\nlonger  234\n  said once"


def test_the_summary_counts_missed_goals() -> None:
    """Distances do not count; a missed goal stands out."""
    met, missed, shown = Verdict(True, "good"), Verdict(False, "bad"), Verdict(None, "far")
    text = summary([("one", Figure((), (met, shown))), ("two", Figure((), (missed,)))])
    assert text.splitlines()[-1] == "1 of 2 goals missed"
    assert "MISS two       bad" in text
    assert summary([("one", Figure((), (met,)))]).endswith("all 1 goals met")
    assert summary([("one", Figure((), (shown,)))]).endswith("no goals here")


def test_the_way_to_the_first_statement_is_whole() -> None:
    """The steps from the signal to the first statement add up to all of it; what comes after the launch is left out."""
    spans = [
        Span(0.0, 0.5, "before the signal"),
        Span(0.9, 2.0, WAIT),
        Span(2.5, 3.0, "claim"),
        Span(3.0, 4.0, WAIT),
        Span(4.0, 6.0, LAUNCH),
        Span(6.5, 7.5, "write"),
    ]
    found = steps_between(spans, signalled=1.0, first=10.0)
    assert found == [
        (FIRST_WAIT, 1.0),
        ("claim", 0.5),
        (LATER_WAIT, 1.0),
        (LAUNCH, 2.0),
        (INTERPRETER, 4.0),
        (OTHER, 0.5),
    ]
    assert sum(seconds for _, seconds in found) == 9.0


IMPORTS = """\
import time: self [us] | cumulative | imported package
import time:       123 |        123 |   _io
import time:        12 |        300 | anthropic._client
something the program said
"""


def test_the_list_of_imports_is_read() -> None:
    """Every module of -X importtime, nested or not, and nothing else."""
    assert import_times(IMPORTS) == ["_io", "anthropic._client"]
    assert top_names(["os", "anthropic._client"]) == {"os", "anthropic"}


def test_an_sdk_before_success_is_missed_and_a_blind_look_tells_nothing() -> None:
    """Without an SDK the goal is met, with one it is missed, and when the control sees none nothing is claimed."""
    control = ["anthropic._client", "httpx2"]
    assert no_sdk(["os", "infra.cell.runner.start"], control).met is True
    assert "httpx2" in no_sdk(["os", "httpx2._models"], control).text
    assert no_sdk(["os", "httpx2._models"], control).met is False
    assert no_sdk(["os"], ["os"]).met is False


def test_a_step_is_from_a_reply_to_the_next_request() -> None:
    """The first request follows no reply, and the last reply is followed by no request."""
    assert steps.between(received=[1.0, 3.0, 6.0], sent=[0.5, 2.0, 5.0]) == [1.0, 2.0]


TOLD = """\
  0.25 s  clone: main@0123456789ab
  0.75 s  boot: SUCCESS
  1.50 s  leave: gone with exit status 0
"""


def test_the_parts_of_a_rehearsal_are_all_of_it() -> None:
    """What was told is named without what differs each time, and nothing of the whole is left out."""
    found = parts(TOLD, inside=2.0, seconds=2.5)
    assert found == [
        (BEFORE, 0.5),
        ("to clone: main@", 0.25),
        ("to boot: SUCCESS", 0.5),
        ("to leave: gone", 0.75),
        (AFTER, 0.5),
    ]
    assert sum(seconds for _, seconds in found) == 2.5


@pytest.mark.parametrize("body", [bodies.SERVES, bodies.HOPS, *bodies.BAD.values()])
def test_runners_are_programs(tmp_path: Path, body: str) -> None:
    """Each is one that Python takes, whose first statement is its stamp; another number is another version."""
    places = Paths(*("/nowhere" for _ in Paths._fields))
    text = bodies.program(body, places, tmp_path / "stamps", tmp_path / "orders", 1)
    compile(text, "runner.py", "exec")
    assert text.startswith(FIRST_LINE)
    assert text != bodies.program(body, places, tmp_path / "stamps", tmp_path / "orders", 2)


def test_a_missing_peer_says_how_to_get_it() -> None:
    """What is not installed is named, with the command that installs it; what is there is found."""
    with pytest.raises(Missing, match="no-such-supervisor is missing; run 'scripts/setup bench'"):
        program("no-such-supervisor")
    assert program("sh").endswith("/sh")
