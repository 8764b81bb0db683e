"""Time in which the watcher itself did not look: it was stopped, or a slow disk held it up. It counts for nobody, or
the first look after would end a runner that had no chance to be seen to be well.

Only deadlines of the kind "until then it must have done so" are put off; what says when to look again is not."""

from __future__ import annotations

from math import inf

from infra.supervision.states import Phase, State

LATE_SECONDS = 2.0
"""A look that is later than this was held up; less is a busy machine's way."""
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


class Lasting:
    """How long something has lasted, as far as the watcher was there to see it: what stopped the watcher may have
    stopped the others too, so of a look that is late only `LATE_SECONDS` count."""

    def __init__(self) -> None:
        self._looked: float | None = None
        """When it was seen last; None while it does not last."""
        self._seconds = 0.0

    def looks(self, at: float, lasts: bool) -> float:
        """Monotonic seconds from the first look that found it to this one; 0 when it does not last."""
        if not lasts:
            self._looked, self._seconds = None, 0.0
            return 0.0
        if self._looked is not None:
            self._seconds += min(max(0.0, at - self._looked), LATE_SECONDS)
        self._looked = at
        return self._seconds
