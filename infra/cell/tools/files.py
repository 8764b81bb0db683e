"""The tools for files: `read_file`, `write_file`, `edit_file`, `delete_file`.

What is read is bounded and says when it is not the whole; what is written is there whole or not at all. An edit is
protected by `old`, which is literal; that the file has changed since this run saw it is told."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from infra.cell.actions import ToolResult
from infra.cell.clip import clip
from infra.cell.protocol.operations import is_elided
from infra.cell.tools.arguments import schema
from infra.cell.tools.edits import edited
from infra.cell.tools.registry import BRIEFLY, SideEffect, Tool, ToolError
from infra.cell.tools.spill import IMAGE, Spill, is_image
from infra.shared.conversation import MOST_IMAGE_BYTES, ToolSpec
from infra.shared.safe_files import Below

READ_BYTES = 16 << 20
"""What is read of a file at most; `bash` has tools for larger ones."""

TIMEOUT_MS = 60_000
"""Only regular files of bounded size are touched, so nothing here waits for anybody: the disk alone takes its time."""

PATH = {"type": "string", "description": "from the checkout, or absolute"}
LINES = {"type": "integer", "minimum": 0}

READ_FILE = ToolSpec(
    "read_file",
    "Read a text file, or look at an image (PNG, JPEG, GIF, WebP). Long text is cut in the middle and says so; "
    "offset lines are skipped first, and at most limit lines are given.",
    schema({"path": PATH}, {"offset": LINES, "limit": {**LINES, "minimum": 1}}),
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
CHANGED = "the file has changed since this run read it; the rest of it may be other than you think"
ELIDED = "the content holds a line that stands for lines left out; it was written as it is"


class Content(NamedTuple):
    """What is shown of a file."""

    text: str
    notes: tuple[str, ...]
    lines: int
    """Of the whole file."""
    whole: bool


def file_tools(checkout: str, output_chars: int, roots: Sequence[str] = ()) -> tuple[Tool, ...]:
    """`roots` for operations: a file must lie below one of them; and as results are events then, texts come as they
    are, and what else is known of them as facts."""
    spill = Spill(checkout)
    seen: dict[str, bytes] = {}
    """Digests of files as this run has seen them last."""

    def located(path: str) -> str:
        """Without links. Raises ToolError for what names no file, or one out of the roots."""
        if not path or "\0" in path or path.startswith("~"):
            raise ToolError(f"path {path!r} names no file", "Give one such as src/notes.md")
        real = os.path.realpath(os.path.join(checkout, path))
        if roots and not any(f"{real}/".startswith(f"{os.path.realpath(root)}/") for root in roots):
            raise ToolError(f"{path!r} lies outside of the workspace", f"The workspace is {', '.join(roots)}")
        return real

    def read(given: Mapping[str, Any], seconds: float) -> ToolResult:
        path = given["path"]
        real = located(path)
        raw, size = _content(real, path)
        seen[real] = _digest(raw)
        if is_image(raw):
            return _image(path, raw, size, spill)
        shown = chosen(path, raw, size, given.get("offset", 0), given.get("limit"), output_chars)
        facts = {"path": path, "lines": shown.lines} | ({} if shown.whole else {"truncated": True})
        if roots or not shown.notes:
            return ToolResult(shown.text, facts=facts)
        return ToolResult(f"{shown.text.rstrip(chr(10))}\n[{'; '.join(shown.notes)}]", facts=facts)

    def write(given: Mapping[str, Any], seconds: float) -> ToolResult:
        path, content = given["path"], given["content"].encode()
        real = located(path)
        if not given.get("replace", True) and os.path.lexists(real):
            raise ToolError(f"{path} exists", 'Edit a part of it, or set "replace" to true')
        _write(real, path, content)
        seen[real] = _digest(content)
        warning = ELIDED if is_elided(given["content"]) else ""
        return _changed(f"wrote {len(content)} bytes to {path}", path, {"bytes": len(content)}, warning)

    def edit(given: Mapping[str, Any], seconds: float) -> ToolResult:
        path = given["path"]
        real = located(path)
        raw, size = _content(real, path)
        if size > len(raw):
            raise ToolError(f"{path} has {size} bytes; at most {READ_BYTES} can be edited", "Change it by a program")
        made = edited(raw, given["old"], given["new"], given.get("count", 1))
        changed = CHANGED if seen.get(real, _digest(raw)) != _digest(raw) else ""
        warning = "; ".join(filter(None, (made.warning, changed)))
        if made.content != raw:
            _write(real, path, made.content)
        seen[real] = _digest(made.content)
        return _changed(f"replaced {made.replaced} in {path}", path, {"replaced": made.replaced}, warning)

    def delete(given: Mapping[str, Any], seconds: float) -> ToolResult:
        path = given["path"]
        located(path)
        entry = os.path.join(checkout, path)
        if not os.path.islink(entry):  # which goes itself
            _refuse_unless_regular(entry, path)
        os.unlink(entry)
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
    kept = spill.keep_image(content)
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


def _refuse_unless_regular(real: str, path: str) -> os.stat_result:
    """Before it is opened, as opening a device may already do something. Raises ToolError and OSError."""
    try:
        status = os.stat(real)
    except FileNotFoundError:
        raise ToolError(f"{path} does not exist", "List the directory to see what does") from None
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{path} is a directory; expected a file", "List it with ls")
    if not stat.S_ISREG(status.st_mode):
        raise ToolError(f"{path} is no regular file; only such files are read and written")
    return status


def _content(real: str, path: str) -> tuple[bytes, int]:
    """At most READ_BYTES of a file, and its size."""
    status = _refuse_unless_regular(real, path)
    with Below(os.path.dirname(real)).opened(os.path.basename(real)) as file:
        content = file.read(READ_BYTES)
        return content, max(len(content), status.st_size)


def _write(real: str, path: str, content: bytes) -> None:
    """In one step; the file keeps its mode, and missing directories are made."""
    directory, name = os.path.split(real)
    mode = stat.S_IMODE(_refuse_unless_regular(real, path).st_mode) if os.path.lexists(real) else None
    os.makedirs(directory, exist_ok=True)
    Below(directory).write(name, content, 0o666 if mode is None else mode, durable=False)
    if mode is not None:
        os.chmod(real, mode)  # also what the umask takes from a new file


def _changed(words: str, path: str, facts: dict[str, Any], warning: str) -> ToolResult:
    told = {"warning": warning} if warning else {}
    words += f" (warning: {warning})" if warning else ""
    return ToolResult(words, artifacts=(path,), facts={"path": path, **facts, **told})


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
