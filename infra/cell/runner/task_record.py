"""What a run did, for the answer to its task: from the acts that the dispatcher made and from git, never from the
model's words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from infra.cell.actions import ToolCall, ToolResult
from infra.cell.cell import Cell
from infra.cell.loop.loop import Acted, Event
from infra.cell.mind.tasks import TaskEvidence
from infra.cell.tools.hop import fetch_all
from infra.shared.branches import MIND
from infra.shared.people import WATCHER
from infra.shared.repository.git import GitError

MOST_COMMITS = 20
_SHELL = "bash"
_WRITES = ("write_file", "edit_file")
_SKILL = re.compile(r"skills/((?:core|learned|candidates)/[\w.-]+)")


class TaskRecord:
    """Of one run."""

    def __init__(self, context: Cell, run: str, before: Iterable[tuple[ToolCall, ToolResult]] = ()) -> None:
        """`before`: acts of the run that are on record, when it is resumed."""
        self._context, self._run = context, run
        self._commands: list[tuple[str, int | None]] = []
        self._paths: dict[str, None] = {}
        self._skills: dict[str, None] = {}
        self._notes: list[str] = []
        self._refs = self._tips()
        for call, result in before:
            self._add(call, result)

    def add(self, event: Event) -> None:
        if isinstance(event, Acted):
            self._add(event.call, event.result)

    def evidence(self) -> TaskEvidence:
        return TaskEvidence(
            runs=(self._run,),
            commands=tuple(self._commands),
            commits=self._commits(),
            artifacts=tuple(self._paths),
            skills=tuple(self._skills),
            notes=tuple(self._notes),
        )

    def _add(self, call: ToolCall, result: ToolResult) -> None:
        if call.name == _SHELL and isinstance(command := call.args.get("command"), str):
            code = result.facts.get("exit")
            self._commands.append((command, code if isinstance(code, int) else None))
        path = call.args.get("path")
        if isinstance(path, str):
            if match := _SKILL.search(path):
                self._skills[match[1]] = None
            elif call.name in _WRITES and result.ok:
                self._paths[path] = None
        if call.name == "note" and result.ok and isinstance(statement := call.args.get("statement"), str):
            self._notes.append(statement)

    def _tips(self) -> list[str]:
        try:
            return self._context.git("for-each-ref", "--format=%(objectname)").split()
        except GitError:
            return []

    def _commits(self) -> tuple[str, ...]:
        """New in the agent's clone of main, whoever made them, but for the keep's own reports."""
        if not self._refs:
            return ()
        try:
            fetch_all(self._context.git)
            shown = self._context.git(
                *("log", f"--max-count={2 * MOST_COMMITS}", "--encoding=UTF-8", "--format=%H%x00%ce%x00%s"),
                *("--branches", f"--exclude=origin/{MIND}", "--remotes", "--not", *sorted(set(self._refs)), "--"),
            )
        except GitError as error:
            self._context.log.warning("task.commits_not_listed", error=str(error))
            return ()
        lines = (line.split("\0") for line in shown.split("\n") if line.count("\0") == 2)
        return tuple(
            f"{sha[:12]} {subject}"
            for sha, email, subject in lines
            if email != WATCHER.email and not subject.startswith("report: ")
        )[:MOST_COMMITS]
