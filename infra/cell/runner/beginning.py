"""How a unit of work begins: anew, with the runner's note of now; where the last runner was cut short; or, when the PM
says so, where an earlier run stood after one of its steps."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from infra.cell.loop.recorded import Recorded
from infra.cell.loop.replay import problem_with_step
from infra.cell.loop.toolbox import Toolbox
from infra.cell.runner import opening, resumption, taken_up
from infra.cell.runner.home import Home
from infra.cell.runner.page import Seen
from infra.cell.runner.transcript import SUFFIX
from infra.shared.boot import Limits
from infra.shared.comms import Directive
from infra.shared.conversation import FIRST_MESSAGE, OPENING_PREFIX, Message, Request, Text, ToolResult, ToolUse
from infra.shared.files import write_whole
from infra.shared.repository.tip import read_file
from infra.shared.resume import GO_ON_FROM

TRANSCRIPTS = "logs/transcripts"

_RESUMED = (
    "The process that you worked in ended at {at}, with all that it had started; another one goes on here, from "
    "{branch} at {commit}. What is told above was done. Before you go on, look how the checkout and the branches "
    "stand, and at the end of logs/errors.log."
)
_TAKEN_UP = (
    "What stands above is the run {run} up to its step {step}; what came after that step is not told here, but it has "
    "happened. The PM takes the run up again from there, now from {branch} at {commit}. Before you go on, look how the "
    "checkout and the branches stand. The directives now are:\n\n{directives}"
)


class NoPrompt(Exception):
    """There is nothing to tell the model who it is; carries what to do."""


class How(Enum):
    """How a unit of work begins."""

    ANEW = "anew"
    RESUMED = "resumed"
    """The same run goes on, in the same record."""
    TAKEN_UP = "taken up"
    """A new run begins with what is on record of another."""


class Begun(NamedTuple):
    """The beginning of a unit of work."""

    name: str
    how: How
    transcript: str
    """Path of its record."""
    tasks: tuple[Directive, ...]
    request: Request
    before: Recorded | None = None
    """What is on record."""
    told: str = ""
    """To the model, behind that."""

    @property
    def steps(self) -> int:
        return self.before.steps if self.before else 0

    def most_steps(self, limits: Limits) -> int:
        """With those on record: a run that was taken up has as many as any before it, one that goes on what it had."""
        if self.how is How.TAKEN_UP:
            return self.steps + limits.unit_steps
        if self.before and self.before.most_steps:
            return min(self.before.most_steps, self.steps + limits.unit_steps)
        return limits.unit_steps


def begin(home: Home, seen: Seen, tasks: Sequence[Directive], toolbox: Toolbox, look_back: bool) -> Begun:
    """Raises NoPrompt, GitError, OSError."""
    prompt = _base_prompt(home, seen)
    directory = os.path.join(home.checkout, TRANSCRIPTS)
    cut_short = resumption.cut_short(home, directory, [task.id for task in tasks]) if look_back else None
    here = {"branch": home.boot.branch, "commit": home.boot.commit[:12]}
    if cut_short:
        name, how, before = cut_short.run_id, How.RESUMED, cut_short
        tasks = [task for task in tasks if task.id in before.directives or _was_told(before, task)]
        told = _RESUMED.format(at=before.at, **here)
        model = before.request.model
    elif earlier := _asked_for(home, directory, tasks):
        name, how, (before, model) = _new_name(home), How.TAKEN_UP, earlier
        every = "\n\n".join(f"{task.id}: {task.text}" for task in tasks)
        told = _TAKEN_UP.format(run=before.run_id, step=before.steps, directives=every, **here)
    else:
        name = _new_name(home)
        messages = _opening(home, seen, tasks, toolbox, look_back)
        request = Request((prompt, seen.document), messages, toolbox.tools, name)
        return Begun(name, How.ANEW, os.path.join(directory, name + SUFFIX), tuple(tasks), request)
    request = Request((prompt, seen.document), before.request.messages, toolbox.tools, name, model)
    return Begun(name, how, os.path.join(directory, name + SUFFIX), tuple(tasks), request, before, told)


def _was_told(run: Recorded, task: Directive) -> bool:
    """It came while the run was under way."""
    return any(f"{task.id}: {task.text}" in words.steered for words in run.told.values())


def _new_name(home: Home) -> str:
    return f"{home.now().replace(':', '')}-{home.boot.id[:8]}"


def _asked_for(home: Home, directory: str, tasks: Sequence[Directive]) -> tuple[Recorded, str] | None:
    """The run that a directive names, as it stood, and the model that it names, or nothing.

    Where that cannot be had the model reads the directive all the same."""
    for task in tasks:
        found = GO_ON_FROM.match(task.text)
        if not found:
            continue
        step = int(found[2])
        try:
            run = resumption.read(directory, found[1])
            problem = problem_with_step(run, step) or taken_up.note(home.checkout, task.id)
        except Exception as error:  # whatever stands there; the directive is work all the same
            problem = f"{type(error).__name__}: {error}"
        if not problem:
            return run.until(step), found[3] or ""
        home.log.warning("run.not_taken_up", unit=found[1], why=problem)
    return None


def _opening(
    home: Home, seen: Seen, tasks: Sequence[Directive], toolbox: Toolbox, look_back: bool
) -> tuple[Message, ...]:
    """The beginning of the conversation: `Continue.`, and the runner's own first act."""
    now = opening.text_of(opening.gather(home, seen.commit, tasks, look_back))
    write_whole(os.path.join(home.checkout, opening.NOW), now.encode(errors="replace"))
    first = ToolUse(f"{OPENING_PREFIX}1", "read_file", {"path": opening.NOW})
    reply = toolbox.call(first, gated=False)
    return (
        Message("user", (Text(FIRST_MESSAGE),)),
        Message("assistant", (first,)),
        Message("user", (ToolResult(first.id, reply.content, reply.is_error),)),
    )


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
