"""Commands that runs repeated with success, and the draft of a skill of them. Pure.

A draft is a candidate like any other: it has no test of its own yet, so the gate holds it until it is given one."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from infra.cell.mind.history import History, Run
from infra.shared.text import one_line

SUCCESSES, LEAST_COMMANDS, MOST_COMMANDS = 3, 3, 8
"""Runs that gave them, and how many of them, for a draft."""
MOST_COMMAND_CHARS: Final = 300
_VARIES = re.compile(r"\"[^\"]*\"|'[^']*'|\b[0-9a-f]{7,64}\b|\b\d+\b")
"""What is another in each run: texts, commits, numbers."""
_LOOKS = frozenset(["cat", "cd", "echo", "file", "find", "grep", "head", "ls", "pwd", "rg", "sed", "tail", "wc"])
"""Programs that make nothing: what is between them is the procedure."""
_DRAFT: Final = """\
---
name: {name}
description: Commands that {count} runs gave one after the other with success ({programs}).
version: 0.1.0
status: candidate
---

# Skill: {name}

## Purpose

Drafted by code from events. Say here what it is for, or remove the folder.

## Procedure

{steps}

## Failure modes & recovery

- A command ends with another status than 0: stop, and look at what it says.

## Notes

Texts and numbers are those of the last run. The events of these show it: {runs}.
"""


def drafts(history: History, since: str) -> dict[str, str]:
    """By their names: of what as many runs gave as commands, all of which ended well. The runs ended well and had not
    read the web."""
    found = dict[tuple[str, ...], dict[str, list[str]]]()
    for run in history.runs.values():
        if run.succeeded and not run.origins and run.began >= since:
            commands = _commands(run)
            if LEAST_COMMANDS <= len(commands) <= MOST_COMMANDS:
                found.setdefault(tuple(_VARIES.sub("…", each) for each in commands), {})[run.name] = commands
    often = {same: runs for same, runs in found.items() if len(runs) >= SUCCESSES and len(set(same)) > 1}
    return dict(_draft("\n".join(("", *same, "")), runs) for same, runs in often.items())


def _commands(run: Run) -> list[str]:
    """That make something; none when one of them failed."""
    given = list[str]()
    for done in run.commands:
        codes = done.exit_codes
        for at, each in enumerate(done.commands):
            command = one_line(each.args[1] if each.args[:1] == ("-c",) and len(each.args) > 1 else each.cmd)
            if at >= len(codes) or codes[at] != 0 or "`" in command or not 0 < len(command) <= MOST_COMMAND_CHARS:
                return []
            if command.split()[0] not in _LOOKS:
                given.append(command)
    return given


def _draft(same: str, runs: dict[str, list[str]]) -> tuple[str, str]:
    *_, last = runs.values()
    programs = "-".join(dict.fromkeys(each.split()[0].rpartition("/")[2] for each in last))
    words = re.sub(r"[^a-z0-9]+", "-", programs.lower())[:40].strip("-") or "procedure"
    name = f"{words}-{hashlib.sha256(same.encode(errors='replace')).hexdigest()[:6]}"
    steps = "\n".join(f"{number}. `{each}`" for number, each in enumerate(last, 1))
    return name, _DRAFT.format(name=name, count=len(runs), programs=programs[:80], steps=steps, runs=", ".join(runs))
