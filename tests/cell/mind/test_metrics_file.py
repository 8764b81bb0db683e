"""The figures of a mind, written after each run and duty."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from infra.cell.mind.duties import STATE as DUTIES
from infra.cell.mind.metrics import FILE, STATE
from infra.cell.mind.metrics_file import write_metrics
from infra.cell.mind.run_use import RunUse
from infra.shared.clock import moment
from infra.shared.conversation import Completion, Usage
from infra.shared.mind.event import EventMetadata, MindEvent
from tests.cell.mind.one_mind import OneMind
from tests.cell.mind.test_metrics import read

NOW = moment("2026-01-31T10:00:00")


@pytest.fixture
def mind(tmp_path: Path) -> OneMind:
    return OneMind(str(tmp_path), NOW)


def a_run(mind: OneMind, name: str, status: str = "completed") -> None:
    details = {"directives": [name], "steps": 3}
    metadata = EventMetadata(status=status, details=details)
    mind.context().record([msgspec.to_builtins(MindEvent("task_update", metadata=metadata, run_id=name))])


def shown(mind: OneMind) -> dict[str, dict[tuple[str, ...], float]]:
    return read(mind.read(FILE))


def test_counters_survive_a_restart_and_the_loss_of_their_state(mind: OneMind) -> None:
    use = RunUse()
    use.add(Completion((), "end_turn", "m", Usage(10, 5, 0, 100), usd=0.5))
    a_run(mind, "r1")
    write_metrics(mind.context(), use)
    a_run(mind, "r2", "max_steps")
    mind.now += 86_400
    a_run(mind, "r3")
    write_metrics(mind.context(), use)
    found = shown(mind)
    assert found["agent_tasks_completed_total"] == {(): 2}
    assert found["agent_runs_total"] == {("completed",): 2, ("max_steps",): 1}
    assert found["agent_tokens_total"][("cache_read",)] == 200
    assert found["agent_cost_usd_total"] == {("task",): 1.0}
    assert found["agent_last_run_timestamp_seconds"] == {(): NOW + 86_400}
    assert found["agent_last_tick_timestamp_seconds"] == {(): NOW + 86_400}

    for broken in ("<<<<<<< HEAD", '{"version": 2}', '{"days": 7}'):
        mind.write(STATE, broken)
        write_metrics(mind.context())
        assert shown(mind)["agent_tasks_completed_total"] == {(): 2}, "the events tell it again"


def test_what_cannot_be_read_costs_its_own_figures_alone(mind: OneMind) -> None:
    a_run(mind, "r1")
    mind.write(DUTIES, "\0")
    mind.write("memory/beliefs.md", b"\xff\xfe## B-000001\n")
    mind.write("skills/learned/x/SKILL.md", "")
    write_metrics(mind.context())
    assert shown(mind)["agent_tasks_completed_total"] == {(): 1}
    assert shown(mind)["agent_skills"][("learned",)] == 0


def test_nothing_half_written_is_ever_seen(mind: OneMind) -> None:
    """The file is replaced in one step: a reader has the old one or the new one."""
    write_metrics(mind.context())
    with open(f"{mind.root}/{FILE}", encoding="utf-8") as old:
        a_run(mind, "r1")
        write_metrics(mind.context())
        assert read(old.read())["agent_events_total"] == {(): 0}
    assert shown(mind)["agent_events_total"] == {(): 1}
    assert [path.name for path in (Path(mind.root) / "metrics").iterdir() if path.suffix == ".tmp"] == []
