"""What the PM is told of a run that is over."""

from __future__ import annotations

from infra.cell.doors import ModelFailure
from infra.cell.loop.progress import DENIED_TO_END, IDLE_TO_END, MAX_FAILURES
from infra.cell.loop.record import BROKEN_REPLIES
from infra.cell.run_states import StopReason
from infra.cell.waits import MOST_TRIES, words_on
from infra.cell.work.work import Over, Report, Work
from infra.shared import comms

_WHY_STOPPED = {
    StopReason.MAX_STEPS: "it used up its {steps} steps (limits.run_steps)",
    StopReason.MAX_WALL_TIME: "it used up its time (limits.run_seconds)",
    StopReason.MAX_TOKENS: f"its replies were cut {BROKEN_REPLIES} times in a row; smaller pieces or a higher "
    "model.max_tokens help",
    StopReason.INVALID_REPLIES: "its replies asked for acts in a form that cannot be carried out, or ended without a "
    "report",
    StopReason.REFUSAL: "the model refused to go on",
    StopReason.NO_OP_LOOP: f"{IDLE_TO_END} steps in a row only repeated calls of the run, with the same results",
    StopReason.MAX_FAILURES: f"{MAX_FAILURES} calls in a row failed",
    StopReason.POLICY_DENIED: f"in {DENIED_TO_END} steps in a row, the policy denied every call",
    StopReason.AWAITING_APPROVAL: "a call waits for your approval",
    StopReason.NOT_RECORDED: "what it did could not be written down",
}
_WHAT_TO_DO = {
    "authentication": "The provider refuses the API key: set a valid one and restart the agent.",
    "budget_exhausted": "Raise budget.daily_usd in minifram.yaml and restart the agent: it "
    "goes on at once; or wait for the next UTC day.",
    "context_overflow": "The page alone is too long for the model: prune COMMS.md, or lower model.max_tokens.",
    "invalid_request": "The provider calls the request wrong: see model.name in minifram.yaml, and logs/errors.log.",
}
_WAIT = "The run keeps its place and is tried again at each tick; 'minifram doctor' looks at the way to the model."


def of(work: Work, over: Over) -> Report | None:
    """None for one that goes on in another process, and for a model whose failure the newest report tells."""
    result, wait = over.result, over.wait
    if wait.is_review:
        then = f"It stays open, and goes on when you have decided about the branch ('minifram review {wait.branch}')."
        return Report(f"waits ({wait.why}): {work.subject}", f"{then}\n\n{result.text}", about=work.ticks)
    if result.reason is StopReason.COMPLETED:
        text = result.text or "The model ended its turn without a word."
        return Report(f"done: {work.subject}", text, work.ticks)
    if result.reason is StopReason.MODEL_UNAVAILABLE and result.failure:
        return _without_model(work, result.failure, over.document)
    if result.reason not in _WHY_STOPPED:
        return None
    why = _WHY_STOPPED[result.reason].format(steps=result.steps)
    # No two titles since the PM's word are the same, which the keep would take for one trouble.
    title = f"{wait.why}, try {wait.tries} of {MOST_TRIES}" if wait.is_counted and wait.tries > 1 else wait.why
    return _stopped(work, title, f"The run ended because {why}. {words_on(wait)}\n\n{result.text}")


def _without_model(work: Work, failure: ModelFailure, document: str) -> Report | None:
    why = f"model {failure.type}"
    if f"stopped ({why})" in "".join(comms.reports(document)[-1:]).partition("\n")[0]:
        return None
    return _stopped(work, why, f"{failure.message}\n\n{_WHAT_TO_DO.get(failure.type, _WAIT)}")


def _stopped(work: Work, why: str, text: str) -> Report:
    return Report(f"stopped ({why}): {work.subject}", text, about=work.ticks)
