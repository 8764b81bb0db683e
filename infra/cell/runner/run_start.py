"""How a run starts: new, with the runner's briefing; or resumed, where the last runner was cut short."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from infra.cell.actions import ToolCall
from infra.cell.cell import Cell
from infra.cell.loop.operations import event_of, message_of
from infra.cell.loop.recorded import Recorded
from infra.cell.mind.context import Reads, as_operations
from infra.cell.page import PageSeen
from infra.cell.protocol.guide import guide
from infra.cell.runner import briefing, resume
from infra.cell.runner.transcript import SUFFIX
from infra.cell.tools.tool import Toolbox
from infra.shared.boot import OPERATIONS, TOOLS, Limits
from infra.shared.comms import Directive
from infra.shared.conversation import FIRST_MESSAGE, OPENING_PREFIX, Message, Request, Text, ToolResult, ToolUse
from infra.shared.paths import BASE_PROMPT, TRANSCRIPTS
from infra.shared.redacted_file import RedactedFile

_CUT_SHORT = "The run was cut short at "
_RESUMED = (
    _CUT_SHORT
    + "{at}, and everything that it had started has ended; it continues here, from {branch} at {commit}. What "
    "stands above was done. Before you continue, look at the state of the checkout and the branches, and at the end of "
    "logs/errors.log."
)


_TOOLS_ABOVE = """\
What the text above says of tools holds for operations: `read_file` is `readFile`, `write_file` is `createFile`, `bash`
is `shell`, and so on. `bootstrap` is `createFile` of `.signal/bootstrap` with the branch as its content, `rollback` is
`createFile` of `.signal/rollback` with the commit. You end your turn by sending your report.
"""


class RunStart(NamedTuple):
    name: str
    transcript: str
    """Path of its record."""
    tasks: tuple[Directive, ...]
    request: Request
    before: Recorded | None = None
    """What is on record of the run, when it is resumed."""
    told: str = ""
    """To the model, after the record."""
    acts: str = TOOLS
    """How the model asks for acts; what was begun one way goes on that way."""

    @property
    def steps(self) -> int:
        return self.before.steps if self.before else 0

    def most_steps(self, limits: Limits) -> int:
        """With those on record."""
        if self.before and self.before.most_steps:
            return min(self.before.most_steps, self.steps + limits.run_steps)
        return limits.run_steps


def start_of(
    context: Cell,
    seen: PageSeen,
    tasks: Sequence[Directive],
    toolbox_for: Callable[[str], Toolbox],
    look_back: bool,
    reads: Callable[[str, bool], tuple[Reads, Reads]] = lambda words, is_new: ((), ()),
) -> RunStart:
    """`toolbox_for` gives the tools of one way to ask for acts, `reads` what is placed before a new run as read,
    before and behind the briefing, for work of these words. Raises GitError, OSError."""
    prompt = _base_prompt(context)
    acts = context.boot.acts
    directory = os.path.join(context.checkout, TRANSCRIPTS)
    here = {"branch": context.boot.branch, "commit": context.boot.commit[:12]}
    name, told = f"{context.now().replace(':', '')}-{context.boot.id[:8]}", ""
    before = resume.cut_short(context, directory, [task.id for task in tasks]) if look_back else None
    if before and before.acts == TOOLS != acts:  # text can be said to any model
        why = "it called tools, and one of the models cannot"
        context.log.warning("run.not_resumed", run=before.run_id, why=why)
        before = None
    if before:
        acts = before.acts
        name, messages = before.run_id, before.request.messages
        tasks = [task for task in tasks if task.id in before.directives or _was_told(before, task)]
        told = "" if _was_told_of_a_cut(before) else _RESUMED.format(at=before.at, **here)
    else:
        messages = _opening(context, seen, tasks, toolbox_for(acts), acts, look_back, reads)
    tools = toolbox_for(acts).tools if acts == TOOLS else ()
    system = prompt if acts == TOOLS else f"{prompt.rstrip()}\n\n{guide()}\n{_TOOLS_ABOVE}"
    request = Request((system, seen.document), messages, tools, name)
    path = os.path.join(directory, name + SUFFIX)
    return RunStart(name, path, tuple(tasks), request, before, told, acts)


def _was_told_of_a_cut(run: Recorded) -> bool:
    """And the model has not answered since: in a long outage the same run is resumed many times."""
    last = run.told.get(run.steps)
    return last is not None and _CUT_SHORT in last.steered


def _was_told(run: Recorded, task: Directive) -> bool:
    """It was added while the run was under way."""
    return any(f"{task.id}: {task.text}" in words.steered for words in run.told.values())


def _opening(
    context: Cell,
    seen: PageSeen,
    tasks: Sequence[Directive],
    toolbox: Toolbox,
    acts: str,
    look_back: bool,
    reads: Callable[[str, bool], tuple[Reads, Reads]],
) -> tuple[Message, ...]:
    """The beginning of the conversation: `Continue.`, and as results of reads what is constant in the mind, the
    briefing, and what else `reads` gives."""
    now = briefing.text_of(context, seen.commit, tasks, look_back)
    RedactedFile(os.path.join(context.checkout, briefing.NOW)).replace(now)
    first = ToolCall("", "read_file", {"path": briefing.NOW})
    constant, others = reads("\n".join(task.text for task in tasks), True)
    if acts == OPERATIONS:
        others = as_operations(others)
    placed = [*constant, (first, toolbox.call(first, gated=False)), *others]
    placed = [(call._replace(id=f"{OPENING_PREFIX}{number}"), got) for number, (call, got) in enumerate(placed, 1)]
    if acts == OPERATIONS:
        events = message_of(tuple(event_of(call, got) for call, got in placed))
        return (Message("user", (Text(FIRST_MESSAGE), Text(events))),)
    return (
        Message("user", (Text(FIRST_MESSAGE),)),
        Message("assistant", tuple(ToolUse(call.id, call.name, dict(call.args)) for call, _ in placed)),
        Message("user", tuple(ToolResult(call.id, got.shown, not got.ok) for call, got in placed)),
    )


def _base_prompt(context: Cell) -> str:
    """SYSTEM.md of the commit that runs. Raises OSError."""
    with open(f"{context.boot.code}/{BASE_PROMPT}", encoding="utf-8", errors="replace") as file:
        return file.read()
