from __future__ import annotations

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from infra.cell.mind.metrics import MAX_SERIES, METRICS, MOST_DAYS, DayTally, MetricsState, render, tally_of
from infra.shared.mind.event import MindEvent
from tests.cell.mind.test_skill_gate import Log
from tests.shared.texts import any_text

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (NaN|[+-]Inf|[-+0-9.e]+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"')


def read(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """What a collector reads, by the rules of the text format. Fails for anything that it would refuse."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    declared, helped = "", ""
    assert not text or text.endswith("\n")
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            helped = line.split()[2]
            assert helped not in found, "one group for each name"
        elif line.startswith("# TYPE "):
            _, _, declared, kind = line.split()
            assert (declared, kind) in {(metric.name, metric.type) for metric in METRICS}
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == declared == helped
            labels = tuple(_plain(value) for _, value in LABEL.findall(sample[2] or ""))
            assert labels not in found.setdefault(sample[1], {})
            found[sample[1]][labels] = float(sample[3])
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)


VALUES = st.floats(allow_nan=False)
WORDS = any_text().map(lambda text: re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", "", text))


@given(st.data())
def test_whatever_is_shown_is_valid_and_reads_back(data: st.DataObject) -> None:
    samples: dict[str, dict[tuple[str, ...], float]] = {}
    for metric in data.draw(st.lists(st.sampled_from(METRICS), unique=True, max_size=4)):
        labels = st.tuples(
            *[any_text().map(lambda text: re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", "", text))] * len(metric.labels)
        )
        samples[metric.name] = data.draw(st.dictionaries(labels, VALUES, min_size=1, max_size=3))
    assert read(render(samples)) == samples


@given(any_text())
def test_no_text_breaks_a_line(text: str) -> None:
    assert len(read(render({"agent_skill_uses_total": {(f"{text}\0\r",): 1.0}}))["agent_skill_uses_total"]) == 1


def test_odd_values_and_many_series_stay_valid() -> None:
    odd: dict[str, dict[tuple[str, ...], float]] = {"agent_context_tokens_avg": {(): math.inf}}
    found = read(render(odd | {"agent_runs_total": {("x",): math.nan, ("\0",): 1.0, ("\1",): 2.0}}))
    assert len(found["agent_runs_total"]) == 2, "no series twice"
    assert found["agent_context_tokens_avg"][()] == math.inf
    many: dict[tuple[str, ...], float] = {(f"skill{number}",): 1.0 for number in range(MAX_SERIES + 5)}
    assert len(read(render({"agent_skill_uses_total": many}))["agent_skill_uses_total"]) == MAX_SERIES


def events(chain: Log) -> list[MindEvent]:
    return [line.event for line in chain.lines if line.event]


def test_a_day_is_counted_from_its_events() -> None:
    skill = "learned/csv-sum@0.1.0"
    chain = Log().add("skill_execution", "r1", skill, context_tokens=100).add("error", "r1", skill, context_tokens=300)
    chain.add("task_update", "r1", skill, status="completed", details={"directives": ["a", "b"], "steps": 2})
    chain.add("note", "r2", skill, tool="recall", curiosity_spend=0.25)
    chain.add("task_update", "r2", skill, status="max_steps", details={"steps": 9})
    chain.add("task_update", "r3", status="began", details={"directives": ["c"]})
    found = tally_of(events(chain), 7)
    assert (found.size, found.events, found.errors, found.completed, found.failures) == (7, 6, 1, 2, 1)
    assert found.ends == {"completed": 1, "max_steps": 1}
    assert (found.context_tokens, found.acts, found.recalls) == (400, 2, 1)
    assert (found.uses, found.skill_failures, found.exploration_usd) == ({skill: 2}, {skill: 1}, 0.25)


TALLIES = st.builds(
    DayTally,
    size=st.integers(0, 9),
    events=st.integers(0, 99),
    ends=st.dictionaries(st.sampled_from(["completed", "max_steps"]), st.integers(0, 9)),
)


@given(st.lists(TALLIES, min_size=1, max_size=9), st.integers(1, 100))
def test_counters_never_fall_when_days_go_by(tallies: list[DayTally], days: int) -> None:
    """Old days are added up, a file that was counted is not counted twice."""
    state, total = MetricsState(), 0
    for number in range(days):
        tally = tallies[number % len(tallies)]
        path = f"logs/events/{2026 + number // 365}-{number % 365 // 31 + 1:02}-{number % 31 + 1:02}.jsonl"
        state = state.with_days({path: tally}).with_days({path: tally})
        total += tally.events
        assert state.whole.events == total
    assert len(state.days) <= MOST_DAYS
