"""What an event says of an act: made from the call and its result alone, bounded, keys left out before anything is cut.
Pure, but for the look at a file that was changed."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from infra.cell.loop.actions import ToolCall, ToolResult
from infra.cell.mind.notes import NOTE, SHOWN, STATEMENTS
from infra.shared.mind.event import Command, EventType, Execution, ModifiedFile, Outcomes
from infra.shared.report_titles import first_line
from infra.shared.secret_shapes import redacted, redacted_and_cut

RECALL: Final = "recall"
HOPS: Final = ("bootstrap", "rollback")
WEB: Final = ("fetch_page", "web_search")
CHANGES: Final = ("write_file", "edit_file", "delete_file")
COMMAND_CHARS, WORDS_CHARS, ARGUMENT_CHARS = 4000, 400, 300
MOST_LISTED = 50
MOST_SHOWN = 500
"""Of the mind: what was shown and is not told of would count as found out."""
HASHED_BYTES: Final = 64 << 20
DELETED, UNREADABLE, TOO_LARGE = "deleted", "unreadable", "too large"
_PUSH = re.compile(r"\bgit\b[^\n;|&]{0,200}\bpush\b")
_SKILL = re.compile(r"(?:^|/)skills/((?:core|learned|candidates)/[A-Za-z0-9_.-]{1,80})(?:/SKILL)?\.md")
_VERSION = re.compile(r"^\s{0,4}[Vv]ersion:\s*[\"']?([0-9A-Za-z.+-]{1,40})", re.MULTILINE)


class EventParts(NamedTuple):
    """The parts of an event that an act makes."""

    type: EventType
    execution: Execution
    outcomes: Outcomes
    details: dict[str, Any]


def told(call: ToolCall, result: ToolResult, seconds: float, checkout: str) -> EventParts:
    """`checkout` is where paths and commands begin."""
    files = _files(call, result, checkout)
    left = () if call.name in CHANGES else tuple(_short(path) for path in result.artifacts[:MOST_LISTED])
    return EventParts(
        _type(call, result),
        _execution(call, result, seconds, checkout),
        Outcomes(files, left, _observations(call, result)),
        _details(call, result),
    )


def skill_of(call: ToolCall, result: ToolResult) -> str:
    """`learned/NAME@1.0.0` of a skill whose text the act has read, as far as that is to be seen; empty for none."""
    if call.name not in ("read_file", "bash") or not result.ok:
        return ""
    named = {found[1] for each in call.args.values() if isinstance(each, str) for found in _SKILL.finditer(each)}
    if len(named) != 1:
        return ""
    version = _VERSION.search(result.payload[:4000])
    return f"{named.pop()}{f'@{version[1]}' if version else ''}"


def intent_of(words: str) -> str:
    """The first line of what the model says beside its calls."""
    return first_line(redacted(words))


def _type(call: ToolCall, result: ToolResult) -> EventType:
    if not result.ok:
        return "error"
    if call.name in HOPS:
        return "self_modification"
    if call.name in (NOTE, RECALL):
        return "note"
    pushes = call.name == "bash" and _PUSH.search(str(call.args.get("command", ""))[: 16 * COMMAND_CHARS])
    return "self_modification" if pushes and result.facts.get("exit") == 0 else "skill_execution"


def _execution(call: ToolCall, result: ToolResult, seconds: float, checkout: str) -> Execution:
    commands: tuple[Command, ...] = ()
    script = call.args.get("command" if call.name == "bash" else "check")
    if call.name in ("bash", NOTE) and isinstance(script, str) and script:
        cwd = os.path.join(checkout, str(call.args.get("cwd", ""))).rstrip("/")
        commands = (Command("bash", ("-c", redacted_and_cut(script, COMMAND_CHARS)), _short(cwd)),)
    status = result.facts.get("exit")
    codes = (status,) if commands and isinstance(status, int) else ()
    return Execution(commands, codes, round(seconds * 1000))


def _files(call: ToolCall, result: ToolResult, checkout: str) -> tuple[ModifiedFile, ...]:
    if call.name not in CHANGES or not result.ok:
        return ()
    paths = [os.path.normpath(os.path.join(checkout, path)) for path in result.artifacts[:MOST_LISTED]]
    return tuple(ModifiedFile(_short(path), hash_after(path)) for path in paths)


def hash_after(path: str) -> str:
    """`sha256:…` of the file as it is now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return UNREADABLE
            if status.st_size > HASHED_BYTES:
                return TOO_LARGE
            return f"sha256:{hashlib.sha256(file.read(HASHED_BYTES)).hexdigest()}"
    except FileNotFoundError:
        return DELETED
    except OSError:
        return UNREADABLE


def _observations(call: ToolCall, result: ToolResult) -> str:
    """What was seen, briefly. Of a page of the web nothing: what strangers wrote is no observation."""
    if call.name in WEB and result.ok:
        return _short(result.payload.partition("\n")[0])
    if not result.ok:
        return redacted_and_cut(result.payload, WORDS_CHARS)
    if call.name in ("read_file", NOTE, RECALL):
        return ""
    shown = redacted(result.payload).strip()
    return shown if len(shown) <= WORDS_CHARS else f"…{shown[1 - WORDS_CHARS :]}"


def _details(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    note = result.facts.get(NOTE)
    if call.name == NOTE and isinstance(note, Mapping):
        return dict(note)
    given: dict[str, Any] = {
        name: _short(value) for name, value in call.args.items() if _says_which(name) and isinstance(value, str)
    }
    inner = result.facts.get(RECALL)
    found = inner if isinstance(inner, Mapping) else result.facts
    for name in (SHOWN, STATEMENTS):
        shown = found.get(name)
        if isinstance(shown, list | tuple):
            given[name] = [_short(str(each)) for each in shown[:MOST_SHOWN]]
    return given


def _says_which(name: str) -> bool:
    return name in ("path", "url", "query", "words", "kind", "since", "branch", "ref", "subject", "statement")


def _short(text: str) -> str:
    return redacted_and_cut(text, ARGUMENT_CHARS)
