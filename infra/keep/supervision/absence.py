"""Time in which the watcher itself did not look: it was stopped, or a slow disk held it up. It counts for nobody, or
the first look after would end a runner that had no chance to be seen to be well.

Only deadlines of the kind "until then it must have done so" are put off; what says when to look again is not."""

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
        """When the state's deadline is really over."""
        if state.deadline != self._deadline:
            self._deadline, self._away = state.deadline, 0.0
            self._looked = max(self._looked, state.since.monotonic)
        if state.deadline is None or not (state.phase in _PATIENT or state.request):
            return state.deadline
        return state.deadline + self._away

    def looks(self, at: float, waits: float) -> float:
        """A look after one that was to be followed by another within `waits`; gives by how much it is too late."""
        late = max(0.0, at - self._looked - waits)
        self._looked = at
        if late <= LATE_SECONDS:
            return 0.0
        self._away += late
        return late
