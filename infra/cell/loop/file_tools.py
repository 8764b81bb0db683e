"""The tools for files: `read_file`, `write_file`, `edit_file`, `delete_file`.

What is read is bounded and says when it is not the whole; what is written is there whole or not at all. An edit of a
file that changed since this run read it is refused: it would be made to another text than the one that was seen."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from infra.cell.loop.actions import ToolResult
from infra.cell.loop.arguments import schema
from infra.cell.loop.context.clip import clip
from infra.cell.loop.context.images import IMAGE, is_image, keep
from infra.cell.loop.context.spill import Spill
from infra.cell.loop.edits import edited
from infra.cell.loop.reach import Everywhere, Reach
from infra.cell.loop.registry import BRIEFLY, SideEffect, Tool, ToolError
from infra.cell.protocol.calls import TOOLS
from infra.cell.protocol.read import is_elided
from infra.shared.conversation import MOST_IMAGE_BYTES, ToolSpec

READ_BYTES = 16 << 20
"""What is read of a file at most; `bash` has tools for larger ones."""

TIMEOUT_MS = 60_000
"""Only regular files of bounded size are touched, so nothing here waits for anybody: the disk alone takes its time."""

PATH = {"type": "string", "description": "from the checkout, or absolute"}
LINES = {"type": "integer", "minimum": 0}

READ_FILE = ToolSpec(
    "read_file",
    "Read a text file, or look at an image (PNG, JPEG, GIF, WebP). Long text is cut in the middle and says so; "
    "offset_lines lines are skipped first, and at most limit_lines lines are given.",
    schema({"path": PATH}, {"offset_lines": LINES, "limit_lines": {**LINES, "minimum": 1}}),
)
WRITE_FILE = ToolSpec(
    "write_file",
    "Write a text file whole; missing directories are made. It replaces what was there, unless replace is false: then "
    "a file that exists is an error.",
    schema({"path": PATH, "content": {"type": "string"}}, {"replace": {"type": "boolean"}}),
)
EDIT_FILE = ToolSpec(
    "edit_file",
    "Replace literal text in a file: old must occur exactly count times (1 when left out).",
    schema(
        {"path": PATH, "old": {"type": "string"}, "new": {"type": "string"}},
        {"count": {"type": "integer", "minimum": 1}},
    ),
)
DELETE_FILE = ToolSpec("delete_file", "Delete one file.", schema({"path": PATH}))
UNREAD = "unread: this run has not read the file before it was edited"
ELIDED = "the content holds a line that stands for lines left out; it was written as it is"


class Content(NamedTuple):
    """What is shown of a file."""

    text: str
    notes: tuple[str, ...]
    lines: int
    """Of the whole file."""
    whole: bool


def file_tools(checkout: str, output_chars: int, reach: Reach | None = None) -> tuple[Tool, ...]:
    """`reach` for operations, whose results are events: then texts come as they are, and what else is known of them
    as facts; and a name alone that may mean a file that lies deeper is asked about."""
    files = reach or Everywhere(checkout)
    is_for_events = reach is not None
    called: Callable[[str], str] = str if is_for_events else TOOLS.__getitem__
    """What an operation is called to this model."""
    spill = Spill(checkout)
    seen: dict[str, bytes] = {}
    """Digests of files as this run has seen them last."""

    def read(given: Mapping[str, Any], seconds: float) -> ToolResult:
        path = given["path"]
        raw, size = _content(files, path)
        seen[files.key(path)] = _digest(raw)
        if is_image(raw):
            return _image(path, raw, size, spill)
        shown = chosen(path, raw, size, given.get("offset_lines", 0), given.get("limit_lines"), output_chars)
        facts = {"path": path, "lines": shown.lines} | ({} if shown.whole else {"truncated": True})
        if is_for_events or not shown.notes:
            return ToolResult(shown.text, facts=facts)
        return ToolResult(f"{shown.text.rstrip(chr(10))}\n[{'; '.join(shown.notes)}]", facts=facts)

    def write(given: Mapping[str, Any], seconds: float) -> ToolResult:
        path, content = given["path"], given["content"].encode()
        if not given.get("replace", True) and files.exists(path):
            raise ToolError(
                f"{path} exists", f'Change a part of it with {called("editFile")}, or set "replace" to true'
            )
        if is_for_events:
            _refuse_to_shadow(files, path)
        files.write(path, content)
        seen[files.key(path)] = _digest(content)
        facts: dict[str, Any] = {"path": path, "bytes": len(content)}
        words = f"wrote {len(content)} bytes to {path}"
        if is_elided(given["content"]):
            facts["warning"] = ELIDED
            words += f" (warning: {ELIDED})"
        return ToolResult(words, artifacts=(path,), facts=facts)

    def edit(given: Mapping[str, Any], seconds: float) -> ToolResult:
        path = given["path"]
        if is_for_events:
            _refuse_to_shadow(files, path)
        raw, size = _content(files, path)
        if size > len(raw):
            raise ToolError(f"{path} has {size} bytes; at most {READ_BYTES} can be edited", "Change it by a program")
        key = files.key(path)
        if seen.get(key, _digest(raw)) != _digest(raw):
            raise ToolError(
                f"{path} has changed since this run read it", f"Read it again with {called('readFile')}, then edit it"
            )
        made = edited(raw, given["old"], given["new"], given.get("count", 1), called)
        warnings = "; ".join(filter(None, (made.warning, "" if key in seen else UNREAD)))
        if made.content != raw:
            files.write(path, made.content)
            seen[key] = _digest(made.content)
        words = f"replaced {made.replaced} in {path}" + (f" (warning: {warnings})" if warnings else "")
        facts = {"path": path, "replaced": made.replaced} | ({"warning": warnings} if warnings else {})
        return ToolResult(words, artifacts=(path,), facts=facts)

    def delete(given: Mapping[str, Any], seconds: float) -> ToolResult:
        path = given["path"]
        files.remove(path)
        return ToolResult(f"deleted {path}", artifacts=(path,), facts={"path": path})

    return (
        Tool(READ_FILE, read, TIMEOUT_MS, SideEffect.READ, BRIEFLY),
        Tool(WRITE_FILE, write, TIMEOUT_MS, SideEffect.WRITE, BRIEFLY),
        Tool(EDIT_FILE, edit, TIMEOUT_MS, SideEffect.WRITE),
        Tool(DELETE_FILE, delete, TIMEOUT_MS, SideEffect.WRITE),
    )


def _image(path: str, content: bytes, size: int, spill: Spill) -> ToolResult:
    """Raises ToolError for one that is too large to be shown."""
    if size > MOST_IMAGE_BYTES:
        raise ToolError(
            f"{path} is an image of {size} bytes; at most {MOST_IMAGE_BYTES} can be shown",
            "Make a smaller one by a program, and read that",
        )
    kept = keep(spill, content)
    return ToolResult(
        f"{path} is an image (sha256 {kept['sha256'][:16]})", facts={"path": path, "lines": 0, IMAGE: kept}
    )


def chosen(
    path: str, content: bytes, size: int, offset_lines: int, limit_lines: int | None, output_chars: int
) -> Content:
    """What is shown of a file. Raises ToolError for what is not text."""
    if b"\0" in content:
        raise ToolError(f"{path} is binary ({size} bytes); look at it with file, xxd or strings")
    text = content.decode(errors="replace")
    notes = []
    if "\ufffd" in text and "\ufffd".encode() not in content:
        notes.append("what is not UTF-8 is shown as \ufffd")
    if len(content) < size:
        notes.append(f"only the first {READ_BYTES} of {size} bytes were read; use bash with sed or tail for more")
    count = text.count("\n") + (not text.endswith("\n") and bool(text))
    whole = len(content) == size
    if offset_lines or limit_lines is not None:
        lines = re.findall(r"[^\n]*\n|[^\n]+", text)  # as sed counts them, not as Unicode does
        part = lines[offset_lines:] if limit_lines is None else lines[offset_lines : offset_lines + limit_lines]
        text = "".join(part)
        if len(part) < len(lines):
            whole = False
            notes.append(
                f"lines {offset_lines + 1} to {offset_lines + len(part)} of {len(lines)}"
                if part
                else f"the file has {len(lines)} lines"
            )
    shown = clip(text, output_chars)
    return Content(shown, tuple(notes), count, whole and shown == text)


def _content(files: Reach, path: str) -> tuple[bytes, int]:
    """At most READ_BYTES of a file, and its size."""
    with files.opened(path) as file:
        content = file.read(READ_BYTES)
        return content, max(len(content), os.fstat(file.fileno()).st_size)


def _refuse_to_shadow(files: Reach, path: str) -> None:
    """Raises ToolError for a name alone that nothing has, while files deeper have it; and for `a_py` beside `a.py`."""
    deeper = files.deeper(path) or _with_a_dot(files, path)
    if deeper:
        raise ToolError(
            f"there is no {path} here, but {', '.join(deeper[:5])}",
            f"Give the whole path, or ./{path} for a new file here",
        )


def _with_a_dot(files: Reach, path: str) -> Sequence[str]:
    """The file that is meant when the last underscore stands for a dot."""
    directory, slash, name = path.rpartition("/")
    stem, _, suffix = name.rpartition("_")
    if not stem or "." in name or path.startswith(("/", "./")) or files.exists(path):
        return ()
    other = f"{directory}{slash}{stem}.{suffix}"
    with contextlib.suppress(ToolError):  # a directory
        return (other,) if files.exists(other) else ()
    return ()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
