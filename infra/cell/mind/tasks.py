"""The files of tasks in the clone of the mind: what is open, and answers in `tasks/completed/` and `tasks/blocked/`.

The inbox is read as the PM pushed it, not as it lies in the clone: whatever a run writes there is no task. The evidence
in an answer is what the dispatcher recorded. Words of the model are text below its headings, and open no section."""

from __future__ import annotations

import contextlib
import re
import textwrap
from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple

from infra.cell.loop.loop import RunResult
from infra.cell.mind.memory import write
from infra.cell.run_states import StopReason
from infra.shared.mind.layout import ACTIVE, BLOCKED, COMPLETED, INBOX, MOST_FILE_BYTES, OPEN_QUESTIONS
from infra.shared.mind.sections import Problem
from infra.shared.mind.tasks import Task, inbox_of, order, without_task
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted_and_cut
from infra.shared.text import one_line, plain

MOST_LINES, LINE_CHARS, SUMMARY_CHARS = 40, 200, 16_000
_BLOCKED = re.compile(r"\s*(?:\*\*)?BLOCKED:(?:\*\*)?[ \t]*", re.IGNORECASE)
_SAID = re.compile(r"[ \t]*[-*]?[ \t]*(?:\*\*)?(decision|learned|follow-up)s?:(?:\*\*)?[ \t]*(\S.*)", re.IGNORECASE)


class TaskStatus(Enum):
    COMPLETE = "✅ Complete"
    BLOCKED = "⏸ Blocked"
    FAILED = "❌ Failed"


class TaskEvidence(NamedTuple):
    """What the run on a task did, by the dispatcher's record."""

    run: str = ""
    commands: tuple[tuple[str, int | None], ...] = ()
    """With their exit codes; None for one that was stopped."""
    commits: tuple[str, ...] = ()
    """Each with its subject."""
    artifacts: tuple[str, ...] = ()
    """Paths of files that were created or updated."""
    skills: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Statements that were noted."""


class TaskAnswer(NamedTuple):
    id: str
    status: TaskStatus
    date: str
    """`2026-01-31`."""
    summary: str
    """The model's report, its question, or why there is none."""
    evidence: TaskEvidence = TaskEvidence()
    task: str = ""
    """The block as it stood in the inbox."""
    digest: str = ""
    """Of that block."""

    @property
    def path(self) -> str:
        return f"{BLOCKED if self.status is TaskStatus.BLOCKED else COMPLETED}/{self.id}.md"


def question_in(report: str) -> str:
    """The question of a report that begins with `BLOCKED: question`; empty for any other."""
    match = _BLOCKED.match(report)
    return report[match.end() :].strip() or "It does not say what it needs." if match else ""


def is_completed(result: RunResult) -> bool:
    """A run ended with its report, which neither asks for what it needs nor says that it failed."""
    return result.reason is StopReason.COMPLETED and not (question_in(result.text) or has_failed(result.text))


def has_failed(report: str) -> bool:
    return report.lstrip().startswith("FAILED:")


def said_in(report: str, what: str) -> list[str]:
    """Lines of a report that begin with `Decision:`, `Learned:` or `Follow-up:`."""
    found = (_SAID.fullmatch(line.rstrip()) for line in report.splitlines())
    return [one_line(match[2]) for match in found if match and match[1].lower() == what]


def answer_text(answer: TaskAnswer) -> str:
    evidence, words = answer.evidence, answer.summary
    commands = [(_line(each), "stopped" if code is None else f"exit {code}") for each, code in evidence.commands]
    did = [f"`{each}` → {end}" for each, end in commands[-MOST_LINES:]]
    did += [*(f"commit {_line(each)}" for each in evidence.commits), *([f"run {evidence.run}"] if evidence.run else [])]
    decisions = "; ".join(said_in(words, "decision")) or "see the summary"
    sections = {
        "Summary": _text(redacted_and_cut(words, SUMMARY_CHARS)) or "The run ended without a word.",
        "Approach": _items([f"Skills used: {', '.join(evidence.skills) or 'none'}", f"Key decisions: {decisions}"]),
        "Artifacts": _items([_line(path) for path in evidence.artifacts[:MOST_LINES]]),
        "Commands executed (high level)": _items(did),
        "Learnings": _items([*(_line(note) for note in evidence.notes), *said_in(words, "learned")]),
        "Follow-ups": _items(said_in(words, "follow-up")),
        "Task": textwrap.indent(answer.task.rstrip(), "    "),
    }
    asked = f"Asked_about: {answer.digest}\n" if answer.digest else ""
    head = f"# Task: {answer.id}\nStatus: {answer.status.value}\nCompleted: {answer.date}\n{asked}"
    return head + "".join(f"\n## {name}\n{text}\n" for name, text in sections.items() if text)


def read_answer(text: str) -> TaskAnswer:
    """Its head and its summary; what somebody cut or emptied says less, and is complete."""
    head, _, rest = text.partition("\n## ")
    said = dict(re.findall(r"^([^:\n]+):[ \t]*(.*?)[ \t\r]*$", head, re.MULTILINE))
    status = next((each for each in TaskStatus if each.value == said.get("Status")), TaskStatus.COMPLETE)
    summary = rest.partition("\n")[2].partition("\n## ")[0].strip()
    return TaskAnswer(
        said.get("# Task", ""), status, said.get("Completed", ""), summary, digest=said.get("Asked_about", "")
    )


def active_text(task: Task | None) -> str:
    """What is being done: a task, or nothing."""
    doing = f"## {task.task_id}\n\n{_text(task.description)}" if task else "Nothing is being done."
    return f"# Active\n\n{doing}\n"


def active_id(text: str) -> str:
    """The task that `active.md` names; empty for none."""
    match = re.search(r"^## (TASK-[0-9]{1,9})[ \t\r]*$", text, re.MULTILINE)
    return match[1] if match else ""


def _line(text: str) -> str:
    return redacted_and_cut(plain(one_line(text)).replace("`", "'"), LINE_CHARS)


def _text(words: str) -> str:
    """Without headings of its own: those would be taken for ours."""
    return re.sub(r"^( {0,3})#", r"\1\\#", "\n".join(plain(words).strip().splitlines()), flags=re.MULTILINE)


def _items(found: Sequence[str]) -> str:
    return "\n".join(f"- {each}" for each in found) or "- None"


class TaskFiles:
    """Below the root of the mind's clone."""

    def __init__(self, root: str) -> None:
        self._root, self._below = root, Below(root)

    def seen(self, text: str, answered: Collection[str], now: float) -> tuple[list[Task], list[Problem]]:
        """What can be worked on, the next one first, and what is wrong. `text`: the inbox as the PM pushed it;
        `answered`: tasks that were blocked and have the PM's answer. An edit of its block is an answer as well."""
        tasks, problems = inbox_of(text)
        found, wrong = list[Task](), [*problems]
        for task in tasks:
            if self._below.status(path := f"{COMPLETED}/{task.task_id}.md"):
                if self._answer(path).digest not in ("", task.digest):
                    why = f"{task.task_id}: {path} has its answer already; give this task an id of its own"
                    wrong.append(Problem(INBOX, 1, why))
            elif task.task_id in answered or self._answer(f"{BLOCKED}/{task.task_id}.md").digest != task.digest:
                found.append(task)
        return order(found, now), wrong

    def question(self, id: str) -> str:
        """What was asked about this task last; empty when nothing was."""
        return self._answer(f"{BLOCKED}/{id}.md").summary

    def begin(self, task: Task) -> None:
        """Raises OSError."""
        write(self._root, ACTIVE, active_text(task))

    def rest(self, inbox: str) -> None:
        """Nothing is being done, and the inbox is as the PM pushed it, but for what is done. Raises OSError."""
        write(self._root, ACTIVE, active_text(None))
        for task in inbox_of(inbox).tasks:
            if self._answer(f"{COMPLETED}/{task.task_id}.md").digest == task.digest:
                inbox = without_task(inbox, task)
        self._below.write(INBOX, inbox.encode(errors="surrogateescape"))  # the PM's words, byte for byte

    def answer(self, answer: TaskAnswer) -> None:
        """Raises OSError."""
        write(self._root, answer.path, answer_text(answer))
        if answer.status is not TaskStatus.BLOCKED:
            self._below.unlink(f"{BLOCKED}/{answer.id}.md")

    def questions(self) -> str:
        """`reflection/open_questions.md`; empty for one that cannot be read."""
        return self._read(OPEN_QUESTIONS).decode(errors="surrogateescape")

    def write_questions(self, text: str) -> None:
        """Raises OSError."""
        write(self._root, OPEN_QUESTIONS, text.encode(errors="surrogateescape"))

    def _answer(self, path: str) -> TaskAnswer:
        return read_answer(self._read(path).decode(errors="replace"))

    def _read(self, path: str) -> bytes:
        with contextlib.suppress(OSError):
            return self._below.whole(path, MOST_FILE_BYTES)
        return b""
