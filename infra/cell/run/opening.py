"""How a run opens: new, with the runner's briefing; or from its record, where the last runner was cut short.

A record is the agent's own file: whatever stands in it, a runner starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from infra.cell.actions import ToolCall
from infra.cell.actions import ToolResult as Done
from infra.cell.cell import Cell
from infra.cell.clip import clip
from infra.cell.loop.record import SUFFIX, Line, Opened, Resumed, RunRecord, Standing, parse, standing
from infra.cell.loop.ways import event_of, message_of
from infra.cell.mind.context import Reads, as_operations
from infra.cell.page import PageSeen
from infra.cell.protocol.operations import guide
from infra.cell.run import briefing
from infra.cell.tools.tool import Toolbox
from infra.cell.work.work import Work
from infra.shared.boot import TOOLS
from infra.shared.conversation import FIRST_MESSAGE, OPENING_PREFIX, Message, Request, Text, ToolResult, ToolUse
from infra.shared.paths import BASE_PROMPT, TRANSCRIPTS
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import whole_file
from infra.shared.secret_shapes import redacted

MOST_TIMES = 3
"""In a row, without getting as far as the model: a run that ends each runner would otherwise never end."""
MOST_BYTES = 16 << 20
"""Of a transcript; a longer one is not resumed."""
_CUT_SHORT = "The run stood still from "
_RESUMED = (
    _CUT_SHORT
    + "{at} on, and everything that it had started has ended; it continues here, from {branch} at {commit}. What "
    "stands above was done. Before you continue, look at the state of the checkout and the branches, and at the end of "
    "logs/errors.log."
)
_TOOLS_ABOVE = """\
What the text above says of tools holds for operations: `read_file` is `readFile`, `write_file` is `createFile`, `bash`
is `shell`, and so on. `bootstrap` is `createFile` of `.signal/bootstrap` with the branch as its content, `rollback` is
`createFile` of `.signal/rollback` with the commit. You end your turn by sending your report.
"""


class Opening(NamedTuple):
    opened: Opened
    """The request as it is now; what was begun one way to ask for acts goes on that way."""
    record: RunRecord
    before: Standing | None = None
    """Where it stands, when it is resumed."""
    told: str = ""
    """To the model, when it is resumed."""
    now: str = ""
    """The briefing of a new one."""

    @property
    def name(self) -> str:
        return self.opened.request.run

    def write(self, cell: Cell) -> None:
        """Its briefing and its first line, or the first line of this runner. Raises OSError."""
        if self.before:
            self.record.cut_torn_line()
        else:
            RedactedFile(os.path.join(cell.checkout, briefing.NOW)).replace(self.now)
        self.record.append(Resumed(cell.boot.commit) if self.before else self.opened)


def open_run(
    cell: Cell,
    seen: PageSeen,
    work: Work,
    toolbox: Toolbox,
    reads: Callable[[str], tuple[Reads, Reads]],
    goes_on: str,
) -> Opening:
    """`toolbox` is the run's; `reads` gives what is placed before a new run as read, before and behind the briefing,
    for work of these words. `goes_on`: the run that does, if it can. Raises GitError, OSError."""
    directory, told, now = os.path.join(cell.checkout, TRANSCRIPTS), "", ""
    lines = cut_short(cell, directory, goes_on) if goes_on else None
    before, most_steps = standing(lines) if lines else None, cell.boot.limits.run_steps
    if before:
        name, acts, messages = before.opened.run_id, before.opened.acts, before.opened.request.messages
        most_steps = min(before.opened.most_steps, before.steps + most_steps)
        if _CUT_SHORT not in before.words:  # in a long outage the same run is resumed many times
            told = _RESUMED.format(at=before.at, branch=cell.boot.branch, commit=cell.boot.commit[:12])
    else:
        name, acts = f"{cell.now().replace(':', '')}-{cell.boot.id[:8]}", cell.boot.acts
        now = redacted(briefing.text_of(cell, seen, work))
        # It is shown whatever the policy says of reading.
        facts = {"path": briefing.NOW, "lines": now.count("\n")}
        first = (
            ToolCall("", "read_file", {"path": briefing.NOW}),
            Done(clip(now, cell.boot.limits.output_chars), facts=facts),
        )
        constant, others = reads(work.words)
        others = others if acts == TOOLS else as_operations(others)
        messages = _messages((*constant, first, *others), acts != TOOLS)
    with open(f"{cell.boot.code}/{BASE_PROMPT}", encoding="utf-8", errors="replace") as file:  # of the commit that runs
        prompt = file.read()
    system = prompt if acts == TOOLS else f"{prompt.rstrip()}\n\n{guide()}\n{_TOOLS_ABOVE}"
    tools = toolbox.tools if acts == TOOLS else ()
    request = Request((system, seen.document), messages, tools, name, label=work.label)
    record = RunRecord(os.path.join(directory, name + SUFFIX), name, lines or ())
    return Opening(Opened(request, acts, (work.id,), most_steps), record, before, told, now)


def cut_short(cell: Cell, transcripts: str, name: str) -> list[Line] | None:
    """The lines of this run; None when it cannot go on."""
    try:
        lines = parse(whole_file(os.path.join(transcripts, name + SUFFIX), MOST_BYTES))
        if any(line.run_id != name for line in lines):
            raise ValueError("it is that of another run")
        why_not = why_not_resumed(standing(lines), cell.boot.acts)
    except Exception as error:  # an agent may put anything there, and its next version must start
        why_not = f"{type(error).__name__}: {error}"
    if why_not:
        cell.log.warning("run.not_resumed", run=name, why=why_not)
        return None
    return lines


def why_not_resumed(run: Standing, acts: str) -> str:
    """Empty when it can be."""
    if run.hands_over:
        return "it had handed over"
    if not run.steps:
        return "the model had not answered"
    if run.resumed >= MOST_TIMES:
        return f"it was resumed {run.resumed} times, and no runner got as far as the model"
    if run.opened.acts == TOOLS != acts:  # text can be said to any model
        return "it called tools, and one of the models cannot"
    return ""


def _messages(placed: Iterable[tuple[ToolCall, Done]], by_text: bool) -> tuple[Message, ...]:
    """The beginning of a conversation: `Continue.`, and these as results of reads."""
    placed = [(call._replace(id=f"{OPENING_PREFIX}{number}"), got) for number, (call, got) in enumerate(placed, 1)]
    if by_text:
        events = message_of(tuple(event_of(call, got) for call, got in placed))
        return (Message("user", (Text(FIRST_MESSAGE), Text(events))),)
    return (
        Message("user", (Text(FIRST_MESSAGE),)),
        Message("assistant", tuple(ToolUse(call.id, call.name, dict(call.args)) for call, _ in placed)),
        Message("user", tuple(ToolResult(call.id, got.shown, not got.ok) for call, got in placed)),
    )
