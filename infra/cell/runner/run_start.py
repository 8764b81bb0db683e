"""How a run starts: new, with the runner's briefing; resumed, where the last runner was cut short; or forked, when the
PM says so, from an earlier run as it stood after one of its steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from infra.cell.loop.actions import ToolCall
from infra.cell.loop.actions import ToolResult as ActResult
from infra.cell.loop.operations import event_of, message_of
from infra.cell.loop.recorded import Recorded
from infra.cell.loop.replay import problem_with_step
from infra.cell.loop.toolbox import Toolbox
from infra.cell.model_client import ActsNow
from infra.cell.runner import briefing, resume
from infra.cell.runner.context import RunnerContext
from infra.cell.runner.page import PageSeen
from infra.cell.runner.transcript import SUFFIX
from infra.shared.boot import OPERATIONS, TOOLS, Limits
from infra.shared.comms import Directive
from infra.shared.conversation import FIRST_MESSAGE, OPENING_PREFIX, Message, Request, Text, ToolResult, ToolUse
from infra.shared.paths import TRANSCRIPTS
from infra.shared.protocol.guide import guide
from infra.shared.redacted_file import RedactedFile
from infra.shared.repository.tip import read_file
from infra.shared.resume import GO_ON_FROM

_CUT_SHORT = "The run was cut short at "
_RESUMED = (
    _CUT_SHORT
    + "{at}, and everything that it had started has ended; it continues here, from {branch} at {commit}. What "
    "stands above was done. Before you continue, look at the state of the checkout and the branches, and at the end of "
    "logs/errors.log."
)
_FORKED = (
    "What stands above is the run {run} up to its step {step}; the steps after that are not shown here, but they have "
    "happened. The PM continues the run from there, now from {branch} at {commit}. Before you continue, look at the "
    "state of the checkout and the branches. The directives now are:\n\n{directives}"
)


_TOOLS_ABOVE = """\
What the text above says of tools holds for operations: `read_file` is `readFile`, `write_file` is `createFile`, `bash`
is `shell`, and so on. `bootstrap` is `createFile` of `.signal/bootstrap` with the branch as its content, `rollback` is
`createFile` of `.signal/rollback` with the commit. You end your turn by sending your report.
"""


class NoPrompt(Exception):
    """There is nothing to tell the model who it is; carries what to do."""


class StartMode(Enum):
    NEW = "new"
    RESUME = "resume"
    """The same run continues, in the same record."""
    FORK = "fork"
    """A new run begins with the record of another."""


class RunStart(NamedTuple):
    name: str
    mode: StartMode
    transcript: str
    """Path of its record."""
    tasks: tuple[Directive, ...]
    request: Request
    before: Recorded | None = None
    """What is on record."""
    told: str = ""
    """To the model, after the record."""
    acts: str = TOOLS
    """How the model asks for acts; what was begun one way goes on that way."""

    @property
    def steps(self) -> int:
        return self.before.steps if self.before else 0

    def most_steps(self, limits: Limits) -> int:
        """With those on record: a fork has as many as any run after them, a resumed run what it had."""
        if self.mode is StartMode.FORK:
            return self.steps + limits.unit_steps
        if self.before and self.before.most_steps:
            return min(self.before.most_steps, self.steps + limits.unit_steps)
        return limits.unit_steps


def start_of(
    context: RunnerContext,
    seen: PageSeen,
    tasks: Sequence[Directive],
    toolbox_for: Callable[[str], Toolbox],
    look_back: bool,
    reads: Callable[[str, bool], Sequence[tuple[ToolCall, ActResult]]] = lambda words, is_new: (),
) -> RunStart:
    """`toolbox_for` gives the tools of one way to ask for acts, `reads` what is placed before a new run as read,
    besides the briefing, for work of these words. Raises NoPrompt, GitError, OSError."""
    prompt = _base_prompt(context, seen)
    now = context.acts()
    directory = os.path.join(context.checkout, TRANSCRIPTS)
    here = {"branch": context.boot.branch, "commit": context.boot.commit[:12]}
    name, model, told = f"{context.now().replace(':', '')}-{context.boot.id[:8]}", "", ""
    before = resume.cut_short(context, directory, [task.id for task in tasks]) if look_back else None
    if before and _problem_with_acts(before, now):
        context.log.warning("run.not_resumed", run=before.run_id, why=_problem_with_acts(before, now))
        before = None
    if before:
        mode, name, messages, model = StartMode.RESUME, before.run_id, before.request.messages, before.request.model
        tasks = [task for task in tasks if task.id in before.directives or _was_told(before, task)]
        told = "" if _was_told_of_a_cut(before) else _RESUMED.format(at=before.at, **here)
    elif fork := _asked_for(context, directory, tasks, now):
        mode, (before, model), messages = StartMode.FORK, fork, fork[0].request.messages
        every = "\n\n".join(f"{task.id}: {task.text}" for task in tasks)
        told = _FORKED.format(run=before.run_id, step=before.steps, directives=every, **here)
    else:
        mode, messages = (
            StartMode.NEW,
            _opening(context, seen, tasks, toolbox_for(now.begin), now.begin, look_back, reads),
        )
    acts = before.acts if before else now.begin
    tools = toolbox_for(acts).tools if acts == TOOLS else ()
    system = prompt if acts == TOOLS else f"{prompt.rstrip()}\n\n{guide()}\n{_TOOLS_ABOVE}"
    request = Request((system, seen.document), messages, tools, name, model)
    path = os.path.join(directory, name + SUFFIX)
    return RunStart(name, mode, path, tuple(tasks), request, before, told, acts)


def _was_told_of_a_cut(run: Recorded) -> bool:
    """And the model has not answered since: in a long outage the same run is resumed many times."""
    last = run.told.get(run.steps)
    return last is not None and _CUT_SHORT in last.steered


def _was_told(run: Recorded, task: Directive) -> bool:
    """It was added while the run was under way."""
    return any(f"{task.id}: {task.text}" in words.steered for words in run.told.values())


def _problem_with_acts(run: Recorded, now: ActsNow) -> str:
    """Why the run cannot go on; text can be said to any model."""
    return "it called tools, and one of the models cannot" if run.acts == TOOLS and now.lacks_tools else ""


def _asked_for(
    context: RunnerContext, directory: str, tasks: Sequence[Directive], now: ActsNow
) -> tuple[Recorded, str] | None:
    """The run that a directive names, as it stood, and the model that it names, if any.

    Where that cannot be done the model reads the directive like any other."""
    for task in tasks:
        found = GO_ON_FROM.match(task.text)
        if not found:
            continue
        step = int(found[2])
        try:
            run = resume.read(directory, found[1])
            problem = problem_with_step(run, step) or _problem_with_acts(run, now) or _note_fork(context, task.id)
        except Exception as error:  # a transcript may hold anything; the directive is work in any case
            problem = f"{type(error).__name__}: {error}"
        if not problem:
            return run.until(step), found[3] or ""
        context.log.warning("run.not_forked", run=found[1], why=problem)
    return None


def _note_fork(context: RunnerContext, id: str) -> str:
    """Remember that this directive forks a run now; gives why it may not."""
    forked = context.state.memory.forked
    if id in forked:
        return "it was forked before, and the new run has ended"
    return "" if context.state.change(forked=(*forked, id)) else "the disk does not take a note of it"


def _opening(
    context: RunnerContext,
    seen: PageSeen,
    tasks: Sequence[Directive],
    toolbox: Toolbox,
    acts: str,
    look_back: bool,
    reads: Callable[[str, bool], Sequence[tuple[ToolCall, ActResult]]],
) -> tuple[Message, ...]:
    """The beginning of the conversation: `Continue.`, and the briefing and what `reads` gives as results of reads."""
    now = briefing.text_of(context, seen.commit, tasks, look_back)
    RedactedFile(os.path.join(context.checkout, briefing.NOW)).replace(now)
    first = ToolCall("", "read_file", {"path": briefing.NOW})
    found = reads("\n".join(task.text for task in tasks), True)
    if found and acts == OPERATIONS:
        from infra.cell.mind.assemble import as_operations

        found = as_operations(found)
    placed = [(first, toolbox.call(first, gated=False)), *found]
    placed = [(call._replace(id=f"{OPENING_PREFIX}{number}"), got) for number, (call, got) in enumerate(placed, 1)]
    if acts == OPERATIONS:
        events = message_of(tuple(event_of(call, got) for call, got in placed))
        return (Message("user", (Text(FIRST_MESSAGE), Text(events))),)
    return (
        Message("user", (Text(FIRST_MESSAGE),)),
        Message("assistant", tuple(ToolUse(call.id, call.name, dict(call.args)) for call, _ in placed)),
        Message("user", tuple(ToolResult(call.id, got.payload, not got.ok) for call, got in placed)),
    )


def _base_prompt(context: RunnerContext, seen: PageSeen) -> str:
    """SYSTEM.md of the checkout, or the file that the boot names; main's when the agent has lost its own.

    Raises NoPrompt, OSError, GitError."""
    path = context.boot.prompt or os.path.join(context.checkout, "SYSTEM.md")
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        text = read_file(context.git, seen.commit, "SYSTEM.md") or ""
        context.log.warning("prompt.taken_from_main", commit=seen.commit)
    if not text.strip():
        raise NoPrompt(
            "SYSTEM.md, the base prompt, is missing or empty on main. Put it back and push; that is all it takes."
        )
    return text
