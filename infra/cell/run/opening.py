"""How a run opens: new, with the runner's briefing; or from its record, where the last runner was cut short.

A record is the agent's own file: whatever stands in it, a runner starts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from typing import NamedTuple

from infra.cell.actions import ToolCall
from infra.cell.cell import Cell
from infra.cell.loop.record import SUFFIX, Line, Opened, Resumed, RunRecord, Standing, parse, standing
from infra.cell.loop.ways import event_of, message_of
from infra.cell.mind.context import Reads, as_operations
from infra.cell.page import PageSeen
from infra.cell.protocol.guide import guide
from infra.cell.run import briefing
from infra.cell.run_states import StopReason
from infra.cell.tools.tool import Toolbox
from infra.cell.work.work import Work
from infra.shared.boot import OPERATIONS, TOOLS, Limits
from infra.shared.conversation import FIRST_MESSAGE, OPENING_PREFIX, Message, Request, Text, ToolResult, ToolUse
from infra.shared.paths import BASE_PROMPT, TRANSCRIPTS
from infra.shared.redacted_file import RedactedFile
from infra.shared.safe_files import whole_file

NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z-[0-9a-f]{8}\.jsonl")
"""A copy under another name is not a run."""
MOST_TIMES = 3
"""In a row, without getting as far as the model: a run that ends each runner would otherwise never end."""
RESUMED = ("", StopReason.INTERRUPTED.value, StopReason.MODEL_UNAVAILABLE.value)
"""Ends of a run that goes on; empty for none on record."""
MOST_BYTES = 16 << 20
"""Of a transcript; a longer one is not resumed."""
_CUT_SHORT = "The run was cut short at "
_RESUMED = (
    _CUT_SHORT
    + "{at}, and everything that it had started has ended; it continues here, from {branch} at {commit}. What "
    "stands above was done. Before you continue, look at the state of the checkout and the branches, and at the end of "
    "logs/errors.log."
)
_ANSWERED = (
    "The run waited for the PM's answer from {at} on, and everything that it had started has ended; it continues here, "
    "from {branch} at {commit}. Look at the state of the checkout before you rely on it."
)
_TOOLS_ABOVE = """\
What the text above says of tools holds for operations: `read_file` is `readFile`, `write_file` is `createFile`, `bash`
is `shell`, and so on. `bootstrap` is `createFile` of `.signal/bootstrap` with the branch as its content, `rollback` is
`createFile` of `.signal/rollback` with the commit. You end your turn by sending your report.
"""


class Opening(NamedTuple):
    name: str
    work: str
    """Its id."""
    request: Request
    record: RunRecord
    before: Standing | None = None
    """Where it stands, when it is resumed."""
    told: str = ""
    """To the model, when it is resumed."""
    acts: str = TOOLS
    """How the model asks for acts; what was begun one way goes on that way."""

    @property
    def steps(self) -> int:
        return self.before.steps if self.before else 0

    def most_steps(self, limits: Limits) -> int:
        """With those on record."""
        if self.before and self.before.opened.most_steps:
            return min(self.before.opened.most_steps, self.steps + limits.run_steps)
        return limits.run_steps

    def write(self, cell: Cell) -> None:
        """Its first line, or the first of this runner. Raises OSError."""
        if self.before:
            self.record.cut_torn_line()
            self.record.append(Resumed(cell.boot.commit))
            return
        self.record.append(Opened(self.request, self.acts, (self.work,), self.most_steps(cell.boot.limits)))


def open_run(
    cell: Cell,
    seen: PageSeen,
    work: Work,
    toolbox: Toolbox,
    is_first: bool,
    reads: Callable[[str], tuple[Reads, Reads]] = lambda words: ((), ()),
    answered: str = "",
) -> Opening:
    """`toolbox` is the run's; `reads` gives what is placed before a new run as read, before and behind the briefing,
    for work of these words. `answered`: the run that goes on with the PM's answer. Raises GitError, OSError."""
    directory, told = os.path.join(cell.checkout, TRANSCRIPTS), ""
    lines = cut_short(cell, directory, [work.id], answered)
    before = standing(lines) if lines else None
    if lines and before:
        name, acts, messages = lines[0].run_id, before.opened.acts, before.opened.request.messages
        if _CUT_SHORT not in before.words:  # in a long outage the same run is resumed many times
            words = _ANSWERED if before.end == StopReason.AWAITING_APPROVAL.value else _RESUMED
            told = words.format(at=before.at, branch=cell.boot.branch, commit=cell.boot.commit[:12])
    else:
        name, acts = f"{cell.now().replace(':', '')}-{cell.boot.id[:8]}", cell.boot.acts
        messages = _messages(cell, seen, work, toolbox, is_first, reads)
    prompt = _base_prompt(cell)
    system = prompt if acts == TOOLS else f"{prompt.rstrip()}\n\n{guide()}\n{_TOOLS_ABOVE}"
    tools = toolbox.tools if acts == TOOLS else ()
    request = Request((system, seen.document), messages, tools, name, label=work.label)
    record = RunRecord(os.path.join(directory, name + SUFFIX), name, lines or ())
    return Opening(name, work.id, request, record, before, told, acts)


def cut_short(cell: Cell, transcripts: str, open_directives: Collection[str], answered: str = "") -> list[Line] | None:
    """The lines of the run to resume, if there is one: `answered`, or the last."""
    name = answered or last_run(transcripts)
    if name is None:
        return None
    try:
        lines = parse(whole_file(os.path.join(transcripts, name + SUFFIX), MOST_BYTES))
        if any(line.run_id != name for line in lines):
            raise ValueError("it is that of another run")
        run = standing(lines)
        waited = bool(answered) and run.end == StopReason.AWAITING_APPROVAL.value
        why_not = why_not_resumed(run, open_directives, cell.boot.acts, waited)
    except Exception as error:  # an agent may put anything there, and its next version must start
        cell.log.warning("run.not_resumed", run=name, why=f"{type(error).__name__}: {error}")
        return None
    if why_not:
        cell.log.info("run.not_resumed", run=name, why=why_not)
    return lines if why_not is None else None


def why_not_resumed(run: Standing, open_directives: Collection[str], acts: str, waited: bool = False) -> str | None:
    """None when it can be resumed; empty when the reason is not worth a log line. `waited`: for the PM's answer, which
    is there."""
    opened = run.opened
    if (run.end not in RESUMED and not waited) or run.hands_over:
        return ""
    if not run.steps:
        return "the model had not answered"
    if not opened.directives or not set(opened.directives) <= set(open_directives):
        return "its directives are not open any more"
    if run.resumed >= MOST_TIMES:
        return f"it was resumed {run.resumed} times, and no runner got as far as the model"
    if opened.acts == TOOLS != acts:  # text can be said to any model
        return "it called tools, and one of the models cannot"
    return None


def last_run(directory: str) -> str | None:
    """By name, which begins with the time."""
    try:
        names = os.listdir(directory)
    except OSError:
        return None
    return max((name.removesuffix(SUFFIX) for name in names if NAME.fullmatch(name)), default=None)


def _messages(
    cell: Cell,
    seen: PageSeen,
    work: Work,
    toolbox: Toolbox,
    is_first: bool,
    reads: Callable[[str], tuple[Reads, Reads]],
) -> tuple[Message, ...]:
    """The beginning of the conversation: `Continue.`, and as results of reads what is constant in the mind, the
    briefing, and what else `reads` gives."""
    now = briefing.text_of(cell, seen, work, is_first)
    RedactedFile(os.path.join(cell.checkout, briefing.NOW)).replace(now)
    first = ToolCall("", "read_file", {"path": briefing.NOW})
    constant, others = reads(work.words)
    by_text = cell.boot.acts == OPERATIONS
    placed = [*constant, (first, toolbox.call(first, gated=False)), *(as_operations(others) if by_text else others)]
    placed = [(call._replace(id=f"{OPENING_PREFIX}{number}"), got) for number, (call, got) in enumerate(placed, 1)]
    if by_text:
        events = message_of(tuple(event_of(call, got) for call, got in placed))
        return (Message("user", (Text(FIRST_MESSAGE), Text(events))),)
    return (
        Message("user", (Text(FIRST_MESSAGE),)),
        Message("assistant", tuple(ToolUse(call.id, call.name, dict(call.args)) for call, _ in placed)),
        Message("user", tuple(ToolResult(call.id, got.shown, not got.ok) for call, got in placed)),
    )


def _base_prompt(cell: Cell) -> str:
    """SYSTEM.md of the commit that runs. Raises OSError."""
    with open(f"{cell.boot.code}/{BASE_PROMPT}", encoding="utf-8", errors="replace") as file:
        return file.read()
