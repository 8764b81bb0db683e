"""The model as a run asks it: a call that fails for a passing reason is made again, and the conversation waits."""

from __future__ import annotations

import time
from collections.abc import Callable

from infra.cell.cell import Cell
from infra.cell.doors import ModelFailure
from infra.cell.interruption import Interrupted
from infra.cell.loop.patience import Outage, next_wait
from infra.cell.status import WAITING, WORKING
from infra.shared.clock import timestamp
from infra.shared.conversation import Completion, Request


class PatientModel:
    """Of one run."""

    def __init__(
        self,
        context: Cell,
        wait: Callable[[float], bool],
        note: Callable[[ModelFailure, float | None], None],
        until: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wait` waits so many seconds, and is true when the run had better end; `note` is told each failure and how
        long is waited. Nothing is waited for beyond `until`, when the run's time is over."""
        self._context = context
        self._wait = wait
        self._note = note
        self._until = until
        self._monotonic = monotonic
        self._outage = Outage()

    def complete(self, request: Request) -> Completion:
        """Raises ModelFailure, Interrupted."""
        context = self._context
        while True:
            try:
                completion = context.ask_in_time(request)
            except ModelFailure as failure:
                left = self._until - self._monotonic()
                seconds = next_wait(self._outage, failure.type, failure.retry_after_seconds, left)
                self._note(failure, seconds)
                context.log.warning("model.failed", error=str(failure), next_try_in=seconds)
                context.status.change(last_error=str(failure))
                if seconds is None:
                    raise
                self._outage = self._outage.after(seconds)
                context.heartbeat.beat("waiting for the model", seconds)
                context.status.change(doing=WAITING, until=timestamp(time.time() + seconds))
                if self._wait(seconds):
                    raise Interrupted from None
            else:
                if self._outage.failures:
                    self._outage = Outage()
                    context.status.change(doing=WORKING, until="", last_error="")
                return completion
