"""What the runner says of itself while a run goes from state to state."""

from __future__ import annotations

import json
from pathlib import Path

import structlog

from infra.cell.status import LEAVING, WORKING, StatusFile
from infra.shared.paths import SLEEPING


def test_what_is_shown_is_what_is_done_now(tmp_path: Path) -> None:
    """The facts of a run end with it; an error and the services outlast it."""
    path = tmp_path / "life.json"
    status = StatusFile(str(path), structlog.get_logger())

    def shown(*names: str) -> tuple[object, ...]:
        raw = json.loads(path.read_text())
        return tuple(raw[name] for name in ("doing", *names))

    status.show(WORKING, about="do it")
    status.change(state="EXECUTE_TOOL", steps=2, last_error="no model")
    assert shown("about", "state", "steps", "last_error") == (WORKING, "do it", "EXECUTE_TOOL", 2, "no model")
    status.change(services="web: up")
    status.show(SLEEPING, until="later")
    assert shown("about", "state", "steps", "until") == (SLEEPING, "", "", 0, "later")
    status.show(LEAVING)
    assert shown("last_error", "services", "until") == (LEAVING, "no model", "web: up", "")
