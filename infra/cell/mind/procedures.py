"""Procedures that runs repeated with success, and the draft of a skill for one. Pure.

A draft is a candidate like any other: it has no test of its own yet, so the gate holds it until it is given one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from infra.cell.run_states import StopReason
from infra.shared.mind.event import MindEvent
from infra.shared.text import cut, one_line

LEAST_COMMANDS, MOST_COMMANDS = 3, 8
"""In one procedure."""
MOST_OF_RUN: Final = 400
"""Commands of one run that are looked at."""
MOST_COMMAND_CHARS: Final = 300
_VARIES = re.compile(r"\"[^\"]*\"|'[^']*'|\b[0-9a-f]{7,64}\b|\b\d+\b")
"""What is another in each run: texts, commits, numbers."""
_LOOKS = frozenset(
    ("cat", "cd", "echo", "file", "find", "grep", "head", "ls", "pwd", "rg", "sed", "tail", "wc", "which")
)
"""Programs that make nothing: what is between them is the procedure."""
_NO_NAME = re.compile(r"[^a-z0-9]+")


class Procedure(NamedTuple):
    commands: tuple[str, ...]
    """As the last of the runs gave them."""
    key: str
    """The same for all runs that did the same."""
    runs: tuple[str, ...]
    lines: tuple[str, ...]
    """Of the events of the last run."""

    @property
    def name(self) -> str:
        """For a folder of skills."""
        programs = dict.fromkeys(command.split()[0].rpartition("/")[2] for command in self.commands)
        words = _NO_NAME.sub("-", "-".join(programs).lower()).strip("-")
        return f"{words[:40].strip('-') or 'procedure'}-{self.key[:6]}"


class _Done(NamedTuple):
    command: str
    same: str
    place: str


def procedures(events: Iterable[tuple[str, MindEvent]], successes: int) -> tuple[Procedure, ...]:
    """Sequences of commands that ended well, one after the other, in so many runs that ended well, the longest and most
    often repeated first. Runs that had read the web do not count."""
    stretches, ended, tainted = dict[str, list[list[_Done]]](), set[str](), set[str]()
    for place, event in events:
        run = event.run_id
        if event.metadata.origins:
            tainted.add(run)
        if event.event_type == "task_update" and event.metadata.status == StopReason.COMPLETED.value:
            ended.add(run)
        if event.metadata.tool == "bash":
            _take(stretches.setdefault(run, [[]]), place, event)
    found = dict[tuple[str, ...], dict[str, list[_Done]]]()
    for run in [run for run in stretches if run in ended and run not in tainted]:
        for stretch in stretches[run]:
            for gram in _windows(stretch):
                found.setdefault(tuple(done.same for done in gram), {})[run] = gram
    often = {same: runs for same, runs in found.items() if len(runs) >= successes and len(set(same)) > 1}
    largest = sorted(often, key=lambda same: (-len(same), -len(often[same]), same))
    kept = list[tuple[str, ...]]()
    for same in largest:
        if not any(_is_within(same, other) for other in kept):
            kept.append(same)
    return tuple(_procedure(same, often[same]) for same in kept)


def draft(procedure: Procedure) -> str:
    """`SKILL.md` of a candidate."""
    steps = "\n".join(f"{number}. `{command}`" for number, command in enumerate(procedure.commands, 1))
    programs = dict.fromkeys(command.split()[0] for command in procedure.commands)
    tools = "\n".join(f"- {program}" for program in programs)
    evidence = "\n".join(f"- {line}" for line in procedure.lines)
    names = ", ".join(programs)
    return f"""---
name: {procedure.name}
description: "Commands that {len(procedure.runs)} runs gave one after the other with success ({cut(names, 80)})."
version: 0.1.0
status: candidate
---

# Skill: {procedure.name}

## Purpose

Drafted by code from events: {len(procedure.runs)} runs did this. Say here what it is for, or remove the folder.

## Triggers / When to use

- Not said yet.

## Preconditions

- Not said yet.

## Dependencies

- None

## Procedure

{steps}

## Commands and tools

{tools}

## Failure modes & recovery

- A command ends with another status than 0: stop, and look at what it says.

## Notes

Texts and numbers are those of the last run. Its events:

{evidence}

## Changelog

- 0.1.0 drafted from events
"""


def _take(stretches: list[list[_Done]], place: str, event: MindEvent) -> None:
    """What looks is passed over; what fails ends a stretch."""
    for at, each in enumerate(event.execution.commands):
        command = one_line(each.args[1] if each.args[:1] == ("-c",) and len(each.args) > 1 else each.cmd)
        codes = event.execution.exit_codes
        if at >= len(codes) or codes[at] != 0 or "`" in command or not 0 < len(command) <= MOST_COMMAND_CHARS:
            if stretches[-1]:
                stretches.append([])
        elif command.split()[0] not in _LOOKS and sum(map(len, stretches)) < MOST_OF_RUN:
            stretches[-1].append(_Done(command, _VARIES.sub("…", command), place))


def _windows(stretch: list[_Done]) -> Iterable[list[_Done]]:
    for size in range(LEAST_COMMANDS, MOST_COMMANDS + 1):
        for start in range(len(stretch) - size + 1):
            yield stretch[start : start + size]


def _is_within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    return any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))


def _procedure(same: tuple[str, ...], runs: Mapping[str, list[_Done]]) -> Procedure:
    key = hashlib.sha256("\n".join(same).encode(errors="replace")).hexdigest()[:16]
    last = runs[max(runs)]
    return Procedure(tuple(done.command for done in last), key, tuple(sorted(runs)), tuple(done.place for done in last))
