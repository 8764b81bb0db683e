"""One unit of work: all open directives in one conversation, from the runner's note of now to a report on main.

A unit that the model ends with words is reported and its directives are ticked, in one commit. One that is cut
short is reported and leaves them open; when to try again is the work loop's decision. One whose conversation has no
room left leaves a hand-over for the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from infra.cell.loop import loop
from infra.cell.loop.context import Room, SummedUp
from infra.cell.loop.loop import Answered, Bounds, End, Happening, Outcome
from infra.cell.loop.outputs import Outputs
from infra.cell.loop.player import Player
from infra.cell.loop.seed_tools import seed_tools
from infra.cell.loop.toolbox import Toolbox
from infra.cell.loop.truncation import shorten
from infra.cell.policy.gate import gate_of
from infra.cell.runner import afresh, beginning, taken_up
from infra.cell.runner.approvals import Approvals
from infra.cell.runner.beginning import Begun, How
from infra.cell.runner.home import Home
from infra.cell.runner.page import Seen
from infra.cell.runner.steering import Steering
from infra.cell.runner.thrift import Thrift
from infra.cell.runner.transcript import Transcript
from infra.cell.runner.wakes import Wakes
from infra.shared import report_titles
from infra.shared.comms import Directive
from infra.shared.control import TENDING_SECONDS

HANDED_OVER_CHARS = 4000
"""Of a hand-over, so much stands in a report."""


_WHY_STOPPED = {
    End.MAX_STEPS: "it used up its {steps} steps (limits.unit_steps)",
    End.MAX_SECONDS: "it used up its time (limits.unit_seconds)",
    End.MAX_TOKENS: "its replies were cut {broken} times in a row; smaller pieces or a higher model.max_tokens help",
    End.REFUSAL: "the model refused to go on",
    End.STUCK: "it did the same {same} times in a row, and the same came of it",
    End.CONTEXT: "its conversation grew over limits.context_tokens, or what the model takes, again and again",
    End.AWAITING_APPROVAL: "a call waits for your approval",
    End.BUDGET: "it used up what one unit may cost (budget.unit_usd, budget.unit_tokens)",
}


_WHEN = "when you push to main, and at the next tick"


def work_on(home: Home, seen: Seen, tasks: Sequence[Directive], wakes: Wakes | None, look_back: bool) -> Outcome:
    """Work on `tasks` until the model ends its turn or a bound is met, and report. With `look_back`, a run that the
    last runner could not end is gone on with. Raises NoPrompt, GitError, OSError before the first model call only."""
    started_at = time.time()

    def on_bug(error: Exception) -> None:
        home.log.error("act.broken", exc_info=error)

    approvals = Approvals(home, seen)
    gate = gate_of(home.boot.policy, home.checkout, approvals.ask)
    limits = home.boot.limits
    toolbox = seed_tools(home.boot, home.checkout, home.git, home.interruption, on_bug, gate)
    begun = beginning.begin(home, seen, tasks, toolbox, look_back)
    home.log.info(
        "unit.started",
        unit=begun.name,
        directives=[task.id for task in begun.tasks],
        main=seen.commit,
        how=begun.how.value,
        steps_on_record=begun.steps,
    )
    home.life.working(report_titles.first_line(begun.tasks[0].text))
    transcript = Transcript(begun.transcript, begun.name, home.log)
    if begun.how is How.RESUMED:
        transcript.resumed(home.boot.id, home.boot.commit)
    else:
        transcript.opened(begun.request, [task.id for task in begun.tasks], begun.most_steps(limits), begun.steps)
    if begun.before and begun.how is How.RESUMED:
        approvals.recall(begun.before)
    steering = Steering(home, wakes, begun.tasks, approvals.news, look_first=begun.how is How.RESUMED)
    thrift = Thrift()

    def record(happening: Happening) -> None:
        home.heart.beat("working", max(limits.bash_seconds, TENDING_SECONDS))  # some tools, and steering, are git calls
        transcript.happened(happening)
        match happening:
            case Answered(step, completion) | SummedUp(step, answers=(*_, completion)) if step > begun.steps:
                thrift.note(completion.spent)
        home.life.step(happening.step)

    bounds = Bounds(begun.most_steps(limits), limits.unit_seconds)
    room = Room(limits.context_tokens, Outputs(home.checkout).keep, steering.all_words)

    def between_steps() -> str | None:
        return "\n\n".join(filter(None, (steering(), thrift()))) or None

    outcome = _run(home, begun, toolbox, bounds, between_steps, record, room, approvals.awaits)
    home.heart.beat("reporting", TENDING_SECONDS)
    home.log.info(
        "unit.finished",
        unit=begun.name,
        end=outcome.end.value,
        steps=outcome.steps,
        seconds=round(time.time() - started_at, 3),
        failure=str(outcome.failure) if outcome.failure else None,
        words=report_titles.first_line(outcome.text),
    )
    if outcome.end is End.CONTEXT:
        afresh.leave_note(home, begun.name, steering.tasks, outcome.text)
    elif outcome.end is End.COMPLETED:
        afresh.drop_note(home)
        _forget(home, [task.id for task in steering.tasks])
    _report(home, outcome, steering.tasks, approvals.lines)
    transcript.ended(outcome)  # last: a run that has no end is gone on with, and its report comes again at worst
    return outcome


def _forget(home: Home, ids: Sequence[str]) -> None:
    try:
        taken_up.forget(home.checkout, ids)
    except (OSError, ValueError) as error:
        home.log.warning("taken_up.not_forgotten", error=str(error))


def _run(
    home: Home,
    begun: Begun,
    toolbox: Toolbox,
    bounds: Bounds,
    steer: Callable[[], str | None],
    record: Callable[[Happening], None],
    room: Room,
    awaits: Callable[[], bool],
) -> Outcome:
    """The loop; over what is on record first."""
    if begun.before is None:
        return loop.run(home.ask_in_time, begun.request, toolbox, bounds, time.monotonic, steer, record, room, awaits)
    player = Player(begun.before, home.ask_in_time, toolbox.call, steer, record, begun.told)
    # A new run has no record of its own yet: what is played goes into it.
    keep = player.record if begun.how is How.RESUMED else record
    room = room._replace(recall=player.summary, ask=home.ask_in_time)
    return loop.run(player.complete, begun.request, player, bounds, time.monotonic, player.steer, keep, room, awaits)


def _report(home: Home, outcome: Outcome, tasks: Sequence[Directive], answers: Collection[str]) -> None:
    """`answers` are directives that are done with the unit as well."""
    match outcome.end:
        case End.COMPLETED:
            text = outcome.text or "The model ended its turn without a word."
            title = report_titles.done(home.boot.branch, home.head_or_boot(), _subject(tasks))
            home.page.report(title, text, (*(task.id for task in tasks), *sorted(answers)))
        case End.HANDED_OVER | End.INTERRUPTED | End.MODEL_FAILURE | End.CONTEXT:
            pass  # the next runner or the next attempt goes on; what is worth a report there, the work loop knows
        case _:
            report_stopped(home, outcome, tasks)


def report_stopped(home: Home, outcome: Outcome, tasks: Sequence[Directive]) -> None:
    """Tell the PM of a unit that was cut short."""
    why = _WHY_STOPPED[outcome.end].format(steps=outcome.steps, broken=loop.BROKEN_REPLIES, same=loop.SAME_TO_END)
    when = "when you have answered or pushed to main" if outcome.end is End.AWAITING_APPROVAL else _WHEN
    then = f"Its directives stay open and are tried again {when}."
    told = f"\n\n{outcome.failure.message}" if outcome.failure else ""
    words = outcome.text
    if outcome.end is End.CONTEXT:
        told = f" The next unit is given {afresh.NOTE}, what this one wrote down; smaller directives help."
        words = shorten(words, HANDED_OVER_CHARS)
    title = report_titles.stopped(home.boot.branch, home.head_or_boot(), _subject(tasks), outcome.end.value)
    home.page.report(title, f"The unit ended because {why}. {then}{told}\n\n{words}")


def _subject(tasks: Sequence[Directive]) -> str:
    return tasks[0].text if len(tasks) == 1 else f"{report_titles.first_line(tasks[0].text)} (+{len(tasks) - 1})"
