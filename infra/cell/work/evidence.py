"""What a run did, for the answer to its task: from its record and from git, never from the model's words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from infra.cell.cell import Cell
from infra.cell.loop.record import Acted, Line
from infra.cell.mind.tasks import TaskEvidence
from infra.cell.tools.hop import fetch_all
from infra.shared.branches import MIND
from infra.shared.people import WATCHER
from infra.shared.repository.git import GitError

MOST_COMMITS = 20
_SKILL = re.compile(r"skills/((?:core|learned|candidates)/[\w.-]+)")


def evidence(run: str, lines: Iterable[Line], commits: tuple[str, ...]) -> TaskEvidence:
    commands, paths, skills, notes = list[tuple[str, int | None]](), list[str](), list[str](), list[str]()
    for act in lines:
        match act:
            case Acted(tool_name="bash", args={"command": str(command)}):
                code = act.facts.get("exit")
                commands.append((command, code if isinstance(code, int) else None))
            case Acted(tool_name="note", args={"statement": str(statement)}, status="ok"):
                notes.append(statement)
            case Acted(args={"path": str(path)}) if found := _SKILL.search(path):
                skills.append(found[1])
            case Acted(tool_name="write_file" | "edit_file", args={"path": str(path)}, status="ok"):
                paths.append(path)
    artifacts, skills_read = tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(skills))
    return TaskEvidence(run, tuple(commands), commits, artifacts, skills_read, tuple(notes))


def commits_since(cell: Cell, began: float) -> tuple[str, ...]:
    """In the agent's clone of main since a run began, whoever made them, but for the keep's own reports. By the dates
    that they bear, which are the agent's to set."""
    try:
        fetch_all(cell.git)
        shown = cell.git(
            *("log", f"--max-count={2 * MOST_COMMITS}", "--encoding=UTF-8", "--format=%H%x00%ce%x00%s"),
            *(f"--since=@{int(began)}", "--branches", f"--exclude=origin/{MIND}", "--remotes", "--"),
        )
    except GitError as error:
        cell.log.warning("task.commits_not_listed", error=str(error))
        return ()
    lines = (line.split("\0") for line in shown.split("\n") if line.count("\0") == 2)
    found = (
        f"{sha[:12]} {subject}"
        for sha, email, subject in lines
        if email != WATCHER.email and not subject.startswith("report: ")
    )
    return tuple(found)[:MOST_COMMITS]
