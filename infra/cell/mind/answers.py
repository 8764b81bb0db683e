"""What the agent writes about a task: `tasks/completed/ID.md`, `tasks/blocked/ID.md` and `tasks/active.md`. Pure.

The evidence in an answer (commits, commands and their exit codes) is what the dispatcher recorded. Words of the model
stand under their headings as text: they cannot open a section of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from infra.cell.loop.loop import RunResult
from infra.cell.run_states import StopReason
from infra.shared.mind.layout import BLOCKED, COMPLETED
from infra.shared.text import cut, plain

MOST_COMMANDS, COMMAND_CHARS = 40, 200
MOST_COMMITS = 20
MOST_ARTIFACTS = 50
SUMMARY_CHARS = 16_000


class TaskStatus(Enum):
    COMPLETE = "✅ Complete"
    BLOCKED = "⏸ Blocked"
    FAILED = "❌ Failed"


class RunCommand(NamedTuple):
    command: str
    exit_code: int | None
    """None: it was stopped."""


class Commit(NamedTuple):
    sha: str
    subject: str


class TaskEvidence(NamedTuple):
    """What the runs of a task did, by the dispatcher's record."""

    runs: tuple[str, ...] = ()
    commands: tuple[RunCommand, ...] = ()
    commits: tuple[Commit, ...] = ()
    artifacts: tuple[str, ...] = ()
    """Paths of files that were created or updated."""
    skills: tuple[str, ...] = ()
    """`learned/web_research@1.2.0`."""
    notes: tuple[str, ...] = ()
    """Statements that were noted."""


class TaskAnswer(NamedTuple):
    id: str
    status: TaskStatus
    date: str
    """`2026-01-31`."""
    summary: str
    """The model's report, or why there is none."""
    evidence: TaskEvidence = TaskEvidence()
    task: str = ""
    """The block as it stood in the inbox."""
    digest: str = ""
    """Of that block."""

    @property
    def path(self) -> str:
        return f"{BLOCKED if self.status is TaskStatus.BLOCKED else COMPLETED}/{self.id}.md"


class ReadAnswer(NamedTuple):
    """What a reader needs of an answer file; what somebody cut or emptied says less."""

    status: TaskStatus | None
    date: str
    digest: str
    question: str
    """The first paragraph of its summary."""


_BLOCKED = re.compile(r"\s*(?:\*\*)?BLOCKED:(?:\*\*)?[ \t]*", re.IGNORECASE)
_SAID = re.compile(r"[ \t]*[-*]?[ \t]*(?:\*\*)?(decision|learned|follow-up)s?:(?:\*\*)?[ \t]*(\S.*)", re.IGNORECASE)


def question_in(report: str) -> str:
    """The question of a report that begins with `BLOCKED: question`; empty for any other."""
    first, _, rest = report.lstrip().partition("\n")
    match = _BLOCKED.match(first)
    if not match:
        return ""
    return f"{first[match.end() :]}\n{rest}".strip() or "It does not say what it needs."


def is_completed(result: RunResult) -> bool:
    """A run ended with its report, which neither asks for what it needs nor says that it failed."""
    return result.reason is StopReason.COMPLETED and not (question_in(result.text) or has_failed(result.text))


def has_failed(report: str) -> bool:
    return report.lstrip().startswith("FAILED:")


def said_in(report: str, what: str) -> list[str]:
    """Lines of a report that begin with `Decision:`, `Learned:` or `Follow-up:`."""
    found = (_SAID.fullmatch(line.rstrip()) for line in report.splitlines())
    return [match[2] for match in found if match and match[1].lower() == what]


def answer_text(answer: TaskAnswer) -> str:
    evidence = answer.evidence
    asked = f"Asked_about: {answer.digest}\n" if answer.digest else ""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", answer.task)), default=0))
    shown = evidence.commands[-MOST_COMMANDS:]
    left_out = len(evidence.commands) - len(shown)
    commands = [f"- `{_line(each.command, COMMAND_CHARS)}` → {_exit(each.exit_code)}" for each in shown]
    commands += [f"- and {left_out} before these"] if left_out > 0 else []
    commands += [f"- commit {each.sha[:12]} {_line(each.subject, 100)}" for each in evidence.commits[:MOST_COMMITS]]
    commands += ["- details: logs/events, run " + ", ".join(evidence.runs)] if evidence.runs else []
    sections = {
        "Summary": _text(cut(answer.summary, SUMMARY_CHARS)) or "The run ended without a word.",
        "Approach": "\n".join(
            [
                f"- Skills used: {', '.join(evidence.skills) or 'none'}",
                f"- Key decisions: {_joined(said_in(answer.summary, 'decision'))}",
            ]
        ),
        "Artifacts": _items([_line(path, 300) for path in evidence.artifacts[:MOST_ARTIFACTS]]),
        "Commands executed (high level)": "\n".join(commands) or "- None",
        "Learnings": _items([*(_line(note, 300) for note in evidence.notes), *said_in(answer.summary, "learned")]),
        "Follow-ups": _items(said_in(answer.summary, "follow-up")),
    }
    if answer.task:
        sections["Task"] = f"{fence}markdown\n{answer.task.rstrip()}\n{fence}"
    head = f"# Task: {answer.id}\nStatus: {answer.status.value}\nCompleted: {answer.date}\n{asked}"
    return head + "".join(f"\n## {name}\n{text}\n" for name, text in sections.items())


def read_answer(text: str) -> ReadAnswer:
    """Never raises."""
    head, _, rest = text.partition("\n## ")
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in head.splitlines())}
    status = next((each for each in TaskStatus if each.value == said.get("Status")), None)
    _, _, summary = rest.partition("\n")
    first = summary.partition("\n## ")[0].strip()
    return ReadAnswer(status, said.get("Completed", ""), said.get("Asked_about", ""), first)


def active_text(id: str = "", words: str = "", run: str = "", began: str = "") -> str:
    """What is being done: a task, or nothing."""
    if not id:
        return "# Active\n\nNothing is being done.\n"
    return f"# Active\n\n## {id}\n\nBegan: {began}\nRun: {run}\n\n{_text(words)}\n"


def active_id(text: str) -> str:
    """The task that `active.md` names; empty for none."""
    match = re.search(r"^## (TASK-[0-9]{1,9})[ \t\r]*$", text, re.MULTILINE)
    return match[1] if match else ""


def _exit(code: int | None) -> str:
    return "stopped" if code is None else f"exit {code}"


def _line(text: str, most: int) -> str:
    return cut(plain(" ".join(text.split())).replace("`", "'"), most)


def _text(words: str) -> str:
    """Without headings of its own: those would be taken for ours."""
    lines = (re.sub(r"^( {0,3})#", r"\1\\#", line) for line in plain(words).strip().splitlines())
    return "\n".join(line.rstrip() for line in lines)


def _items(found: Sequence[str]) -> str:
    return "\n".join(f"- {' '.join(each.split())}" for each in found) or "- None"


def _joined(found: Sequence[str]) -> str:
    return "; ".join(" ".join(each.split()) for each in found) or "see the summary"
