"""What keeps work from going on, as it is told to the PM: once as long as it stays so."""

from __future__ import annotations

import time
from collections.abc import Sequence

from infra.cell.doors import Model, ModelFailure
from infra.cell.runner.context import RunnerContext
from infra.cell.runner.page import PageSeen
from infra.cell.runner.run import report_end
from infra.cell.runner.run_start import NoPrompt
from infra.cell.services.declared import FILE
from infra.shared import comms
from infra.shared.comms import Directive

_WHAT_TO_DO = {
    "authentication": "The provider refuses the API key: set a valid one and restart the agent.",
    "budget_exhausted": "Raise budget.daily_usd in minifram.yaml and restart the agent: it "
    "goes on at once; or wait for the next UTC day.",
    "context_overflow": "The page alone is too long for the model: prune COMMS.md, or lower model.max_tokens.",
    "invalid_request": "The provider calls the request wrong: see model.name in minifram.yaml, and logs/errors.log.",
}
DOOR_SECONDS = 5.0
_WAIT = "The run keeps its place and is tried again at each tick; 'minifram doctor' looks at the way to the model."


def await_model_door(context: RunnerContext) -> None:
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

    def __init__(self, context: RunnerContext) -> None:
        self._context = context
        self._problem = ""
        """With the file of services, at the last look."""
        self._reported_no_prompt = False

    def has_prompt(self) -> None:
        self._reported_no_prompt = False

    def look_at_services(self, seen: PageSeen) -> None:
        """Report what is wrong with their file, once."""
        context = self._context
        if context.services is None:
            return
        context.services.refresh()  # the checkout has just caught up
        problem, self._problem = self._problem, context.services.problem
        if self._problem and self._problem not in (problem, *seen.document.splitlines()):
            title = f"{context.version()} {FILE} cannot be used"
            context.page.report(title, f"{self._problem}\n\nServices that ran before go on; no other is started.")

    def report_no_prompt(self, missing: NoPrompt, tasks: Sequence[Directive]) -> None:
        context = self._context
        context.log.error("prompt.missing", error=str(missing))
        context.status.note_error(str(missing))
        if not self._reported_no_prompt:
            self._reported_no_prompt = True
            report_end(context, tasks[:1], "no SYSTEM.md", str(missing))

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
