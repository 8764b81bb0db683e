"""The figures of a mind, written after each run and duty."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given

from infra.cell.mind.history import Promoted
from infra.cell.mind.metrics import FILE, MAX_SERIES, Metric, _shown, write_metrics
from infra.cell.mind.record import tell
from infra.shared.clock import moment
from infra.shared.mind.event import name_of
from tests.cell.mind.one_mind import OneMind
from tests.cell.mind.test_history import DAY, end, raw
from tests.shared.texts import any_text

NOW = moment("2026-01-31T10:00:00")
SAMPLE = re.compile(r'([a-z_]+)(?:\{[a-z_]+="((?:[^"\\\n]|\\[\\"n])*)"\})? (nan|-?inf|[-+0-9.e]+)')


def read(text: str) -> dict[str, dict[str, float]]:
    """By name and label; fails for what the text format does not have."""
    found: dict[str, dict[str, float]] = {}
    for line in text.split("\n")[:-1]:
        if not line.startswith(("# HELP ", "# TYPE ")):
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            found.setdefault(sample[1], {})[sample[2] or ""] = float(sample[3])
    return found


@pytest.fixture
def mind(tmp_path: Path) -> OneMind:
    return OneMind(str(tmp_path), NOW)


def shown(mind: OneMind) -> dict[str, dict[str, float]]:
    write_metrics(mind.context())
    return read(mind.read(FILE))


def test_what_is_counted_comes_from_the_log(mind: OneMind) -> None:
    lines = [
        raw(1, skill="learned/csv-sum@1.0.0", context_tokens=100),
        raw(2, tool="recall", context_tokens=300),
        raw(3, "error"),
        end(4, "completed", completed=["TASK-001", "0123abcd"]),
        end(5, "max_steps", "r2"),
        end(6, "completed", "r3", completed=[]),  # its report asked the PM
        raw(7, context_tokens=10**30),  # no event
    ]
    mind.write("skills/learned/csv-sum/SKILL.md", "")
    Path(mind.places.events).mkdir(parents=True)
    (Path(mind.places.events) / name_of(DAY)).write_text("".join(lines))
    tell(
        mind.context(),
        Promoted("item", "k", "L-000001"),
        *(Promoted(what, "k") for what in ("contested", "superseded")),
    )
    mind.now += 5
    found = shown(mind)
    assert found["agent_tasks_completed_total"] == {"": 2}
    assert found["agent_runs_total"] == {"completed": 2, "max_steps": 1}
    assert found["agent_context_tokens_avg"] == {"": 200}
    assert found["agent_skill_uses_total"] == {"learned/csv-sum@1.0.0": 1}
    assert found["agent_contradictions_total"] == {"": 2}
    assert found["agent_skills"]["learned"] == 1
    assert found["agent_last_tick_timestamp_seconds"] == {"": NOW + 5}


def test_a_mind_without_events_has_all_its_figures(mind: OneMind) -> None:
    mind.write("memory/beliefs.md", b"\xff\xfe## B-000001\n")
    found = shown(mind)
    assert found["agent_tasks_completed_total"] == {"": 0}
    assert found["agent_beliefs"] == {"active": 0, "contested": 0, "deprecated": 0}


@given(any_text())
def test_no_text_breaks_a_line(text: str) -> None:
    metric = Metric("agent_runs_total", "", {f"{text}{number}": 1.0 for number in range(MAX_SERIES + 9)}, "end")
    assert len(read(_shown(metric))[metric.name]) <= MAX_SERIES
