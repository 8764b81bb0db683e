"""Time during which the watcher itself did not run, because it was stopped or a slow disk held it up. It is not counted
against the runner: otherwise the first look afterwards would end a runner that had no chance to answer.

Only deadlines by which the runner must have done something are postponed."""

from __future__ import annotations

from math import inf

from infra.keep.services.elapsed import LATE_SECONDS
from infra.keep.supervision.decide.state import Phase, State

_PATIENT = (Phase.PREPARING, Phase.BOOTING, Phase.ENDING)


class Absence:
    """How long the watcher was away since the deadline that it waits for was set. Moments are monotonic."""

    def __init__(self) -> None:
        self._looked = inf
        """No look was late before the first."""
        self._deadline: float | None = None
        self._away = 0.0

    def due(self, state: State) -> float | None:
        """The state's deadline, postponed by the watcher's own absence."""
        if state.deadline != self._deadline:
            self._deadline, self._away = state.deadline, 0.0
            self._looked = max(self._looked, state.since.monotonic)
        if state.deadline is None or not (state.phase in _PATIENT or state.request):
            return state.deadline
        return state.deadline + self._away

    def looks(self, at: float, waits: float) -> float:
        """Note a look; the previous one promised the next within `waits`. Returns by how much it is late."""
        late = max(0.0, at - self._looked - waits)
        self._looked = at
        if late <= LATE_SECONDS:
            return 0.0
        self._away += late
        return late
