"""What a model decides, written down beforehand, and how each way to act says it: our tools, operations in plain text,
and the one tool of mini-swe-agent. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Shell(NamedTuple):
    command: str
    seconds: float = 0.0
    """How long it may take; 0 for as long as any."""


class Write(NamedTuple):
    path: str
    content: str


class Read(NamedTuple):
    path: str


class Edit(NamedTuple):
    path: str
    old: str
    new: str


Act = Shell | Write | Read | Edit
Step = tuple[Act, ...]
"""What one reply of the model asks for."""


class Broken(NamedTuple):
    """A reply whose acts cannot be read."""


class ModelReply(NamedTuple):
    """What a provider sends: words, and calls of tools with their arguments."""

    text: str
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = ()
    """Id, tool and arguments."""


class Busy(NamedTuple):
    """In a reply's place: the provider is too busy for this call."""


class BrokenOff(NamedTuple):
    """In a reply's place: the connection breaks off in the middle of it."""


Answer = ModelReply | Busy | BrokenOff
Move = Step | Broken | Busy | BrokenOff
"""What a scripted model does next."""

WORDS, DONE = "Next.", "Done: the work is finished as it was asked for."
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""So mini-swe-agent is told that the work is done."""
ID_DIGITS = 24
"""An id of a call is as long as providers make it: `toolu_` or `call_` and so many characters."""


def by_tools(moves: Sequence[Move]) -> list[Answer]:
    """As a model says it that has our tools."""
    said = _said(moves, lambda at, step: _calls(at, [_tool(act) for act in step]), [("bash", {"comand": "true"})])
    return [*said, ModelReply(DONE)]


def by_operations(moves: Sequence[Move]) -> list[Answer]:
    """As a model says it in plain text: a list, and longer texts in blocks after it."""
    said: list[Answer] = []
    for move in moves:
        if isinstance(move, Broken):
            said.append(ModelReply(f'{WORDS}\n[{{"type": "shell", "command": "true"}}, {{"type": "she'))
        elif isinstance(move, Busy | BrokenOff):
            said.append(move)
        else:
            said.append(ModelReply(_listed(move)))
    return [*said, ModelReply(f'{DONE}\n\n[{{"type": "message", "text": "Done."}}]'), ModelReply("[]")]


def by_bash(moves: Sequence[Move]) -> list[Answer]:
    """As a model says it that has mini-swe-agent's one tool."""

    def calls(at: int, step: Step) -> ModelReply:
        return _calls(at, [("bash", {"command": _command(act)}) for act in step])

    return [*_said(moves, calls, [("bash", {"comand": "true"})]), _calls(len(moves), [("bash", {"command": SUBMIT})])]


def _said(
    moves: Sequence[Move], calls: Callable[[int, Step], ModelReply], wrong: Sequence[tuple[str, dict[str, Any]]]
) -> list[Answer]:
    said: list[Answer] = []
    for at, move in enumerate(moves):
        if isinstance(move, Broken):
            said.append(_calls(at, wrong))
        elif isinstance(move, Busy | BrokenOff):
            said.append(move)
        else:
            said.append(calls(at, move))
    return said


def _calls(step: int, calls: Sequence[tuple[str, dict[str, Any]]]) -> ModelReply:
    ids = (f"call_{step:0{ID_DIGITS // 2}}{at:0{ID_DIGITS // 2}}" for at in range(len(calls)))
    return ModelReply(WORDS, tuple((id, name, given) for id, (name, given) in zip(ids, calls, strict=True)))


def _tool(act: Act) -> tuple[str, dict[str, Any]]:
    match act:
        case Shell(command, seconds):
            return "bash", {"command": command} | ({"timeout_seconds": seconds} if seconds else {})
        case Write(path, content):
            return "write_file", {"path": path, "content": content}
        case Read(path):
            return "read_file", {"path": path}
        case Edit(path, old, new):
            return "edit_file", {"path": path, "old": old, "new": new}


def _listed(step: Step) -> str:
    blocks: list[str] = []

    def field(text: str) -> Any:
        if "\n" not in text:
            return text
        name = f"b{len(blocks) + 1}"
        end = "" if text.endswith("\n") else "\n"
        blocks.append(f"```block {name}\n{text}{end}```")
        return {"block": name}

    listed: list[dict[str, Any]] = []
    for act in step:
        match act:
            case Shell(command, seconds):
                limit = {"timeout": seconds} if seconds else {}
                listed.append({"type": "shell", "command": field(command)} | limit)
            case Write(path, content):
                listed.append({"type": "createFile", "path": path, "content": field(content), "replace": True})
            case Read(path):
                listed.append({"type": "readFile", "path": path})
            case Edit(path, old, new):
                listed.append({"type": "editFile", "path": path, "old": field(old), "new": field(new)})
    return "\n\n".join([f"{WORDS}\n{json.dumps(listed)}", *blocks])


def _command(act: Act) -> str:
    match act:
        case Shell(command):
            return command
        case Write(path, content):
            end = "" if content.endswith("\n") else "\n"
            return f"mkdir -p $(dirname {path}) && cat > {path} <<'END'\n{content}{end}END"
        case Read(path):
            return f"cat {path}"
        case Edit(path, old, new):
            # What mini-swe-agent's own prompt tells its model to do.
            return f"sed -i {shlex.quote(f's|{old}|{new}|')} {path}"
