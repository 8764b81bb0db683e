"""The end of work that has read the web: all of its processes end with it.

Its conversation, and whatever it left running, could otherwise go on untainted with what comes next. So the runner is
started again, and the sweep before that ends every process of the cell."""

from __future__ import annotations

from infra.keep.supervision.decide.events import WebWorkOver
from infra.keep.supervision.unchanged import Unchanged
from infra.shared.active import Runner
from infra.shared.taint import state_file
from infra.shared.taint.machine import reported_at


class WebWork:
    """Of one agent, by the git door's state of taint."""

    def __init__(self, var: str) -> None:
        self._var = var
        self._unchanged = Unchanged(f"{var}/{state_file.NAME}")
        self._over_at = 0.0
        self._asked = ("", 0.0)
        """Of which boot it was said, and of which end."""

    def look(self, runner: Runner | None) -> list[WebWorkOver]:
        if not state_file.is_there(self._var):
            return []
        if not self._unchanged.is_it():
            self._over_at = reported_at(state_file.read(self._var))
            self._unchanged.looked()
        if runner is None or runner.started >= self._over_at:
            return []
        boot_id, over_at = self._asked
        if over_at == self._over_at and boot_id != runner.boot_id:
            return []  # it was started again, whatever a clock that was set back says of when
        self._asked = (runner.boot_id, self._over_at)
        return [WebWorkOver(runner.boot_id)]
