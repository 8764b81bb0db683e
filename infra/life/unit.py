"""One unit of work: all open directives in one conversation, from the runner's note of now to a report on main.

A unit that the model ends with words is reported and its directives are ticked, in one commit. One that is cut
short is reported and leaves them open; when to try again is the work loop's decision."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence

from infra.contract import report_titles
from infra.contract.comms import Directive
from infra.contract.control import TENDING_SECONDS
from infra.contract.conversation import FIRST_MESSAGE, OPENING_PREFIX, Message, Request, Text, ToolResult, ToolUse
from infra.contract.files import write_whole
from infra.life import opening
from infra.life.approvals import Approvals
from infra.life.home import Home
from infra.life.page import Seen
from infra.life.steering import Steering
from infra.life.thrift import Thrift
from infra.life.transcript import Transcript
from infra.life.wakes import Wakes
from infra.loop import loop
from infra.loop.loop import Answered, Bounds, End, Happening, Outcome
from infra.loop.seed_tools import seed_tools
from infra.loop.toolbox import Toolbox
from infra.policy.gate import gate_of
from infra.repository.tip import read_file

TRANSCRIPTS = "logs/transcripts"


class NoPrompt(Exception):
    """There is nothing to tell the model who it is; carries what to do."""


_WHY_STOPPED = {
    End.MAX_STEPS: "it used up its {steps} steps (limits.unit_steps)",
    End.MAX_SECONDS: "it used up its time (limits.unit_seconds)",
    End.MAX_TOKENS: "its replies were cut {broken} times in a row; smaller pieces or a higher model.max_tokens help",
    End.REFUSAL: "the model refused to go on",
    End.STUCK: "it did the same {same} times in a row, and the same came of it",
    End.AWAITING_APPROVAL: "a call waits for your approval",
    End.BUDGET: "it used up what one unit may cost (budget.unit_usd, budget.unit_tokens)",
}


def work_on(home: Home, seen: Seen, tasks: Sequence[Directive], wakes: Wakes | None, look_back: bool) -> Outcome:
    """Work on `tasks` until the model ends its turn or a bound is met, and report. Raises NoPrompt, GitError, OSError
    before the first model call only."""
    started_at = time.time()
    name = f"{home.now().replace(':', '')}-{home.boot.id[:8]}"
    home.life.working(report_titles.first_line(tasks[0].text))
    home.log.info("unit.started", unit=name, directives=[task.id for task in tasks], main=seen.commit)

    def on_bug(error: Exception) -> None:
        home.log.error("act.broken", exc_info=error)

    approvals = Approvals(home, seen)
    gate = gate_of(home.boot.policy, home.checkout, approvals.ask)
    toolbox = seed_tools(home.boot, home.checkout, home.git, home.interruption, on_bug, gate)
    request = _open(home, seen, tasks, toolbox, name, look_back)
    transcript = Transcript(os.path.join(home.checkout, TRANSCRIPTS, f"{name}.jsonl"), name, home.log)
    transcript.opened(request)
    steering, thrift = Steering(home, wakes, tasks, approvals.news), Thrift()

    limits = home.boot.limits

    def record(happening: Happening) -> None:
        home.heart.beat("working", max(limits.bash_seconds, TENDING_SECONDS))  # some tools, and steering, are git calls
        transcript.happened(happening)
        if isinstance(happening, Answered):
            thrift.note(happening.completion.spent)
        home.life.step(happening.step)

    bounds = Bounds(limits.unit_steps, limits.unit_seconds)

    def between_steps() -> str | None:
        return "\n\n".join(filter(None, (steering(), thrift()))) or None

    outcome = loop.run(
        home.ask_in_time, request, toolbox, bounds, time.monotonic, between_steps, record, approvals.awaits
    )
    home.heart.beat("reporting", TENDING_SECONDS)
    transcript.ended(outcome)
    home.log.info(
        "unit.finished",
        unit=name,
        end=outcome.end.value,
        steps=outcome.steps,
        seconds=round(time.time() - started_at, 3),
        failure=str(outcome.failure) if outcome.failure else None,
        words=report_titles.first_line(outcome.text),
    )
    _report(home, outcome, steering.tasks, approvals.lines)
    return outcome


def _open(home: Home, seen: Seen, tasks: Sequence[Directive], toolbox: Toolbox, name: str, look_back: bool) -> Request:
    """The beginning of the conversation: the prompt, `Continue.`, and the runner's own first act."""
    now = opening.text_of(opening.gather(home, seen.commit, tasks, look_back))
    write_whole(os.path.join(home.checkout, opening.NOW), now.encode(errors="replace"))
    system = _base_prompt(home, seen)
    first = ToolUse(f"{OPENING_PREFIX}1", "read_file", {"path": opening.NOW})
    reply = toolbox.call(first, gated=False)
    messages = (
        Message("user", (Text(FIRST_MESSAGE),)),
        Message("assistant", (first,)),
        Message("user", (ToolResult(first.id, reply.content, reply.is_error),)),
    )
    return Request((system, seen.document), messages, toolbox.tools, name)


def _base_prompt(home: Home, seen: Seen) -> str:
    """SYSTEM.md of the checkout, or what the boot names in its place; main's when the agent has lost its own.

    Raises NoPrompt, OSError, GitError."""
    try:
        with open(
            home.boot.prompt or os.path.join(home.checkout, "SYSTEM.md"), encoding="utf-8", errors="replace"
        ) as file:
            text = file.read()
    except FileNotFoundError:
        text = read_file(home.git, seen.commit, "SYSTEM.md") or ""
        home.log.warning("prompt.taken_from_main", commit=seen.commit)
    if not text.strip():
        raise NoPrompt(
            "SYSTEM.md, the base prompt, is missing or empty on main. Put it back and push; that is all it takes."
        )
    return text


def _report(home: Home, outcome: Outcome, tasks: Sequence[Directive], answers: Collection[str]) -> None:
    """`answers` are directives that are done with the unit as well."""
    branch, head = home.boot.branch, home.head_or_boot()
    subject = tasks[0].text if len(tasks) == 1 else f"{report_titles.first_line(tasks[0].text)} (+{len(tasks) - 1})"
    match outcome.end:
        case End.COMPLETED:
            text = outcome.text or "The model ended its turn without a word."
            ticks = (*(task.id for task in tasks), *sorted(answers))
            home.page.report(report_titles.done(branch, head, subject), text, ticks)
        case End.HANDED_OVER | End.INTERRUPTED | End.MODEL_FAILURE:
            pass  # the next runner or the next attempt goes on; what is worth a report there, the work loop knows
        case _:
            why = _WHY_STOPPED[outcome.end].format(
                steps=outcome.steps, broken=loop.BROKEN_REPLIES, same=loop.SAME_TO_END
            )
            when = "when you have answered" if outcome.end is End.AWAITING_APPROVAL else "at the next tick"
            then = f"Its directives stay open and are tried again {when}."
            told = f"\n\n{outcome.failure.message}" if outcome.failure else ""
            text = f"The unit ended because {why}. {then}{told}\n\n{outcome.text}"
            home.page.report(report_titles.stopped(branch, head, subject, outcome.end.value), text)
