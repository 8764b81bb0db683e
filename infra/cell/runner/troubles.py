"""What keeps work from going on, as it is told to the PM: once as long as it stays so."""

from __future__ import annotations

import time
from collections.abc import Sequence

from infra.cell.cell import Cell
from infra.cell.doors import Model, ModelFailure
from infra.cell.page import PageSeen
from infra.cell.runner.run import report_end
from infra.shared import comms
from infra.shared.comms import Directive
from infra.shared.paths import SERVICES

_WHAT_TO_DO = {
    "authentication": "The provider refuses the API key: set a valid one and restart the agent.",
    "budget_exhausted": "Raise budget.daily_usd in minifram.yaml and restart the agent: it "
    "goes on at once; or wait for the next UTC day.",
    "context_overflow": "The page alone is too long for the model: prune COMMS.md, or lower model.max_tokens.",
    "invalid_request": "The provider calls the request wrong: see model.name in minifram.yaml, and logs/errors.log.",
}
DOOR_SECONDS = 5.0
_WAIT = "The run keeps its place and is tried again at each tick; 'minifram doctor' looks at the way to the model."


def await_model_door(context: Cell) -> None:
    """Both doors come back together, this one a little later."""
    deadline = time.monotonic() + DOOR_SECONDS
    while time.monotonic() < deadline:
        context.interruption.check()
        try:
            Model(context.boot.places.model_socket).health(DOOR_SECONDS)
            return
        except ModelFailure:
            time.sleep(0.1)


class Troubles:
    """Of one runner's life."""

    def __init__(self, context: Cell) -> None:
        self._context = context
        self._is_first_look = True

    def look_at_services(self, seen: PageSeen) -> None:
        """Report what is wrong with their file, once."""
        context = self._context
        problem = context.services.problem if context.services and self._is_first_look else ""
        self._is_first_look = False
        if problem and problem not in seen.document.splitlines():
            title = f"{context.version()} {SERVICES} cannot be used"
            context.page.report(title, f"{problem}\n\nNo service runs until main has a {SERVICES} that can be used.")

    def report_failure(self, failure: ModelFailure, seen: PageSeen, tasks: Sequence[Directive], failures: int) -> None:
        """Report an exhausted budget once a day, another failure once while it goes on: by then the run has waited for
        what may pass, and for the rest there is nothing to wait for."""
        why = f"model {failure.type}"
        if failure.type == "budget_exhausted":
            why = f"{why} on {self._context.now()[:10]}"
            if f"stopped ({why})" in seen.document:
                return
        elif failures > 1 or f"stopped ({why})" in "".join(comms.reports(seen.document)[-1:]).partition("\n")[0]:
            return
        text = f"{failure.message}\n\n{_WHAT_TO_DO.get(failure.type, _WAIT)}"
        report_end(self._context, tasks, why, text)
