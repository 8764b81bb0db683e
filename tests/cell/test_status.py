"""What the runner says of itself while a run goes from state to state."""

from __future__ import annotations

import json
from pathlib import Path

from infra.cell.run_states import RunState
from infra.cell.status import StatusFile
from infra.cell.status_file import WORKING, read_runner_status
from infra.shared.paths import SLEEPING


class NoLog:
    """Nothing goes wrong here."""

    def warning(self, event: str, **facts: object) -> None:
        raise AssertionError((event, facts))


def test_the_state_of_a_run_is_shown_until_another_is(tmp_path: Path) -> None:
    """An act that takes an hour is seen for what it is."""
    path = tmp_path / "life.json"
    status = StatusFile(str(path), NoLog())  # type: ignore[arg-type]

    def shown() -> tuple[str, str, int]:
        raw = json.loads(path.read_text())
        return raw["doing"], raw["state"], raw["steps"]

    status.show(WORKING, about="do it")
    assert shown() == (WORKING, "", 0)
    for step in (1, 2):
        for state in (RunState.PLAN, RunState.EXECUTE_TOOL):
            status.enter(state, step)
    assert shown() == (WORKING, "EXECUTE_TOOL", 2)
    status.enter(RunState.OBSERVE, 2)
    status.show(SLEEPING)
    assert shown() == (SLEEPING, "", 0)
    written = read_runner_status(path.read_bytes())
    assert written
    assert written.doing == SLEEPING
    for other in (b"", b"[]", b'{"doing": 1, "since": ""}', path.read_bytes().replace(b"life/1", b"life/2")):
        assert read_runner_status(other) is None
