"""`tasks/inbox.md`: the PM's tasks, each a block of YAML between two lines `---`, and the Markdown below it. Pure.

A block that is not as expected is named and passed over; nothing else in the file is stopped by it. Only the PM adds
and changes blocks; the agent takes them out when they are done."""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from infra.shared.mind.layout import INBOX
from infra.shared.text import cut

Priority = Literal["high", "medium", "low"]
PRIORITIES: tuple[str, ...] = get_args(Priority)
KEYS = ("task_id", "priority", "deadline", "context")
TASK_ID = re.compile(r"TASK-[0-9]{1,9}")
MOST_BYTES = 1 << 20
"""Of the file; what stands behind that is not read."""
MOST_TASKS = 1000
SOON_SECONDS = 86_400.0
"""A task whose deadline is this near goes up a level."""
DESCRIPTION, CRITERIA = "# Task description", "## Success criteria"

_RULE = re.compile(r"---[ \t\r]*")
_KEY = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t\r]|\Z)")
_FENCE = re.compile(r"(```+|~~~+)")
_CONFLICT = re.compile(r"(<{7}|={7}|>{7}|\|{7})( .*)?[ \t\r]*")
_CRITERIA = re.compile(r"^##[ \t]+success criteria[ \t\r]*$", re.IGNORECASE | re.MULTILINE)
_DESCRIPTION = re.compile(r"\A\s*#[ \t]+task description[ \t\r]*(?:\n|\Z)", re.IGNORECASE)
_DEADLINE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_LINE_OF_YAML = re.compile(r"line (\d+): ")


class TaskBlock(NamedTuple):
    id: str
    """`TASK-001`."""
    priority: str
    """One of `PRIORITIES`."""
    deadline: float | None
    """Seconds since the epoch."""
    context: str
    description: str
    success_criteria: str
    line: int
    """Of its first `---`, from 1."""
    text: str = ""
    """All of the block, as it stands in the file."""

    @property
    def digest(self) -> str:
        """Another one means that the PM has changed the block."""
        return hashlib.sha256(self.text.strip().encode(errors="surrogateescape")).hexdigest()[:16]

    @property
    def words(self) -> str:
        """The task as it is put to the model."""
        parts = [self.description]
        if self.context:
            parts.append(f"Context:\n\n{self.context}")
        if self.success_criteria:
            parts.append(f"Success criteria:\n\n{self.success_criteria}")
        return "\n\n".join(parts)


class InboxProblem(NamedTuple):
    line: int
    """From 1."""
    why: str
    """What is wrong, what was expected."""
    id: str = ""
    """Of the task, when it could be told."""

    def __str__(self) -> str:
        return f"{INBOX}, line {self.line}: {f'{self.id}: ' if self.id else ''}{self.why}"


class Inbox(NamedTuple):
    tasks: tuple[TaskBlock, ...]
    """The sound ones, in the order of the file."""
    problems: tuple[InboxProblem, ...] = ()

    def find(self, id: str) -> TaskBlock | None:
        return next((task for task in self.tasks if task.id == id), None)


class _Span(NamedTuple):
    """A block as lines of the file, counted from 0."""

    start: int
    close: int | None
    """The line of its second `---`; None when there is none."""
    end: int
    """One past its last line."""


def parse_inbox(text: str) -> Inbox:
    """What stands in the file; never raises. Bytes that are not UTF-8 are expected as lone surrogates."""
    problems: list[InboxProblem] = []
    if len(text) > MOST_BYTES:
        problems.append(InboxProblem(1, f"it is over {MOST_BYTES:,} bytes; what stands behind that is not read"))
        text = text[:MOST_BYTES]
    lines = text.split("\n")
    spans = _spans(lines)
    if not spans and "\0" in text:
        problems.append(InboxProblem(1, "it holds zero bytes and no task; expected Markdown with blocks of '---'"))
    elif not spans and (found := _stray_key(lines)):
        problems.append(InboxProblem(found, "this belongs to a block that does not begin with a line '---'"))
    tasks: dict[str, TaskBlock] = {}
    for span in spans:
        if len(tasks) >= MOST_TASKS:
            problems.append(InboxProblem(span.start + 1, f"over {MOST_TASKS} tasks; this one and what follows waits"))
            break
        read = _read(lines, span)
        if isinstance(read, InboxProblem):
            problems.append(read)
        elif read.id in tasks:
            why = f"the id stands at line {tasks[read.id].line} already; that one counts, give this one another id"
            problems.append(InboxProblem(read.line, why, read.id))
        else:
            tasks[read.id] = read
    return Inbox(tuple(tasks.values()), tuple(problems))


def block_texts(text: str) -> list[str]:
    """Each block as it stands in the file, sound or not, without blank lines at its end: read without YAML."""
    lines = text.split("\n")
    return ["\n".join(lines[span.start : span.end]).strip() for span in _spans(lines)]


def order(tasks: Sequence[TaskBlock], now: float) -> list[TaskBlock]:
    """By priority and then by deadline; what is due within a day, or was, goes up a level."""

    def urgency(task: TaskBlock) -> tuple[int, float]:
        level = PRIORITIES.index(task.priority)
        if task.deadline is None:
            return level, float("inf")
        return max(0, level - (task.deadline <= now + SOON_SECONDS)), task.deadline

    return sorted(tasks, key=urgency)


def deadline_of(words: str) -> float:
    """Seconds since the epoch of `2026-02-10T00:00:00Z`. Raises ValueError."""
    try:
        if not _DEADLINE.fullmatch(words):
            raise ValueError
        # In UTC: with its zone, a year can be out of all that can be written.
        return datetime.datetime.fromisoformat(words).astimezone(datetime.UTC).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{cut(ascii(words), 60)} is no time; expected one like 2026-02-10T00:00:00Z") from None


def _spans(lines: list[str]) -> list[_Span]:
    hidden = _hidden(lines)
    rules = [at for at, line in enumerate(lines) if at not in hidden and _RULE.fullmatch(line)]
    spans: list[_Span] = []
    next_rule = 0
    while next_rule < len(rules):
        start = rules[next_rule]
        next_rule += 1
        until = rules[next_rule] if next_rule < len(rules) else len(lines)
        if not _is_front_matter(lines[start + 1 : until]):
            continue
        close: int | None = None
        after = rules[next_rule + 1] if next_rule + 1 < len(rules) else len(lines)
        if next_rule < len(rules) and not _begins_task(lines[until + 1 : after]):
            close = until
            next_rule += 1
        spans.append(_Span(start, close, len(lines)))
    ends = [*(span.start for span in spans[1:]), len(lines)]
    return [span._replace(end=end) for span, end in zip(spans, ends, strict=False)]


def _hidden(lines: list[str]) -> set[int]:
    """Lines inside fences and comments that are closed: an example of a task there is none."""
    hidden: set[int] = set()
    unclosed: set[str] = set()
    """Marks that nothing closes from here on."""
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        mark = fence[1] if fence else "<!--" if lines[at].startswith("<!--") else ""
        if mark and mark not in unclosed:
            closes = (n for n in range(at + (mark != "<!--"), len(lines)) if _closes(lines[n], mark))
            end = next(closes, None)
            if end is None:
                unclosed.add(mark)
            else:
                hidden.update(range(at, end + 1))
                at = end
        at += 1
    return hidden


def _closes(line: str, mark: str) -> bool:
    return "-->" in line if mark == "<!--" else mark in line and not line.strip().strip(mark[0])


def _keys(lines: Sequence[str]) -> list[str]:
    return [match[1] for line in lines if (match := _KEY.match(line))]


def _first(lines: Sequence[str]) -> str:
    """The first line that says something."""
    return next((line for line in lines if line.strip() and not line.startswith("#")), "")


def _is_front_matter(lines: Sequence[str]) -> bool:
    return bool(_KEY.match(_first(lines))) and any(key in KEYS for key in _keys(lines))


def _begins_task(lines: Sequence[str]) -> bool:
    match = _KEY.match(_first(lines))
    return bool(match) and match is not None and match[1] == "task_id"


def _stray_key(lines: list[str]) -> int:
    """The line of a key `task_id` outside of any block; 0 for none."""
    hidden = _hidden(lines)
    return next((at + 1 for at, line in enumerate(lines) if at not in hidden and line.startswith("task_id:")), 0)


def _read(lines: list[str], span: _Span) -> TaskBlock | InboxProblem:
    start = span.start + 1
    matter = lines[span.start + 1 : span.close if span.close is not None else span.end]
    ids = [line.partition(":")[2].partition("#")[0].strip() for line in matter if line.startswith("task_id:")]
    id = ids[0] if ids and TASK_ID.fullmatch(ids[0]) else ""

    def problem(why: str, line: int = start) -> InboxProblem:
        return InboxProblem(line, why, id)

    def at(key: str) -> int:
        return next((start + n for n, line in enumerate(matter, 1) if line.startswith(key)), start)

    for number, line in enumerate(lines[span.start : span.end], start):
        if _CONFLICT.fullmatch(line):
            return problem("a conflict marker of git; keep one of the two versions and remove the markers", number)
        if "\0" in line or any("\ud800" <= char <= "\udfff" for char in line):
            return problem("bytes that are no text; expected UTF-8", number)
    if span.close is None:
        return problem("the block's first part is not closed; expected a second line '---' below its keys")
    try:
        from infra.shared.plain_yaml import parse_yaml  # only who has tasks pays for it

        given = parse_yaml("\n".join(line.rstrip("\r") for line in matter))
    except (ValueError, RecursionError) as error:
        said = str(error)
        match = _LINE_OF_YAML.match(said)
        return problem(
            f"this is not YAML: {cut(said[match.end() if match else 0 :], 200)}", start + int(match[1] if match else 0)
        )
    if not isinstance(given, dict):
        return problem(f"expected keys and values: {', '.join(KEYS)}")
    for key in given:
        if key not in KEYS:
            return problem(f"the key {cut(ascii(key), 60)} is unknown; expected {', '.join(KEYS)}", at(str(key)))
    if not isinstance(given.get("task_id"), str) or not TASK_ID.fullmatch(given["task_id"]):
        return problem(f"the task_id is {_said(given.get('task_id'))}; expected one like TASK-001", at("task_id"))
    if given.get("priority") not in PRIORITIES:
        return problem(f"the priority is {_said(given.get('priority'))}; expected high, medium or low", at("priority"))
    context = given.get("context") or ""
    if not isinstance(context, str):
        return problem(
            f"the context is {_said(context)}; expected text ('context: |' and indented lines)", at("context")
        )
    deadline: float | None = None
    if given.get("deadline") not in (None, ""):
        try:
            deadline = deadline_of(str(given["deadline"]))
        except ValueError as error:
            return problem(f"the deadline {error}, or no such key", at("deadline"))
    body = "\n".join(line.rstrip("\r") for line in lines[span.close + 1 : span.end])
    found = _CRITERIA.search(body)
    description = _DESCRIPTION.sub("", body[: found.start()] if found else body).strip()
    if not description:
        return problem(f"there is no description; expected '{DESCRIPTION}' and words below it", span.close + 1)
    text = "\n".join(lines[span.start : span.end]) + ("\n" if span.end < len(lines) else "")
    criteria = body[found.end() :].strip() if found else ""
    return TaskBlock(
        str(given["task_id"]), str(given["priority"]), deadline, context.rstrip(), description, criteria, start, text
    )


def _said(value: Any) -> str:
    return "missing" if value is None else cut(ascii(value), 60)
