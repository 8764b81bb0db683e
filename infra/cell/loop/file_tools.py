"""The tools `read_file` and `write_file`: plain files of the agent's, by a path from the checkout or an absolute one.

What is read is bounded and says when it is not the whole; what is written is there whole or not at all."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Mapping
from typing import Any

from infra.cell.loop.arguments import schema
from infra.cell.loop.context.clip import clip
from infra.cell.loop.registry import BRIEFLY, Reply, SideEffect, Tool, ToolError
from infra.shared.conversation import ToolSpec

READ_BYTES = 16 << 20
"""What is read of a file at most; `bash` has tools for larger ones."""

TIMEOUT_MS = 60_000
"""Only regular files of bounded size are touched, so nothing here waits for anybody: the disk alone takes its time."""

PATH = {"type": "string", "description": "from the checkout, or absolute"}
LINES = {"type": "integer", "minimum": 0}

READ_FILE = ToolSpec(
    "read_file",
    "Read a text file. Long text is cut in the middle and says so; offset_lines lines are skipped first, and at "
    "most limit_lines lines are given.",
    schema({"path": PATH}, {"offset_lines": LINES, "limit_lines": {**LINES, "minimum": 1}}),
)
WRITE_FILE = ToolSpec(
    "write_file",
    "Write a text file whole, replacing what was there; missing directories are made.",
    schema({"path": PATH, "content": {"type": "string"}}),
)


def file_tools(checkout: str, output_chars: int) -> tuple[Tool, Tool]:
    def read(given: Mapping[str, Any], seconds: float) -> Reply:
        path = _path(checkout, given["path"])
        return Reply(read_text(path, given.get("offset_lines", 0), given.get("limit_lines"), output_chars))

    def write(given: Mapping[str, Any], seconds: float) -> Reply:
        path = _path(checkout, given["path"])
        written = write_text(path, given["content"])
        return Reply(f"wrote {written} bytes to {given['path']}", artifacts=(given["path"],))

    return (
        Tool(READ_FILE, read, TIMEOUT_MS, SideEffect.READ, BRIEFLY),
        Tool(WRITE_FILE, write, TIMEOUT_MS, SideEffect.WRITE, BRIEFLY),
    )


def read_text(path: str, offset_lines: int, limit_lines: int | None, output_chars: int) -> str:
    """The text of a file, or the lines asked for, and a note when that is not all there is.

    Raises ToolError for what is not a text file, OSError."""
    try:
        _refuse_unless_regular(path, os.stat(path))  # before opening it: opening a device may already do something
    except FileNotFoundError:
        raise ToolError(f"{path} does not exist; bash('ls') shows what does") from None
    # What was a file a moment ago may be a FIFO now, and opening one would wait for its writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        content = file.read(READ_BYTES)
    if b"\0" in content:
        raise ToolError(f"{path} is binary ({size} bytes); use bash with file, xxd or strings")
    text = content.decode(errors="replace")
    notes = []
    if "\ufffd" in text and "\ufffd".encode() not in content:
        notes.append("what is not UTF-8 is shown as \ufffd")
    if len(content) == READ_BYTES < size:
        notes.append(f"only the first {READ_BYTES} of {size} bytes were read; use bash with sed or tail for more")
    if offset_lines or limit_lines is not None:
        lines = re.findall(r"[^\n]*\n|[^\n]+", text)  # as sed counts them, not as Unicode does
        chosen = lines[offset_lines:] if limit_lines is None else lines[offset_lines : offset_lines + limit_lines]
        text = "".join(chosen)
        if len(chosen) < len(lines):
            notes.append(
                f"lines {offset_lines + 1} to {offset_lines + len(chosen)} of {len(lines)}"
                if chosen
                else f"the file has {len(lines)} lines"
            )
    shown = clip(text, output_chars)
    return shown if not notes else f"{shown.rstrip(chr(10))}\n[{'; '.join(notes)}]"


def write_text(path: str, content: str) -> int:
    """Replace `path` in one step, keeping its mode; gives the bytes written. Raises ToolError, OSError."""
    path = os.path.realpath(path)  # through a link, so that the link stays one
    directory = os.path.dirname(path)
    mode = None
    if os.path.lexists(path):
        status = os.stat(path)
        _refuse_unless_regular(path, status)
        mode = stat.S_IMODE(status.st_mode)
    os.makedirs(directory, exist_ok=True)
    encoded = content.encode()
    descriptor, temporary = tempfile.mkstemp(prefix=".write-", dir=directory)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, _new_file_mode() if mode is None else mode)
            file.write(encoded)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return len(encoded)


def _path(checkout: str, given: str) -> str:
    if not given or "\0" in given:
        raise ToolError(f"path {given!r} names no file; give one such as 'src/notes.md'")
    return os.path.join(checkout, given)


def _refuse_unless_regular(path: str, status: os.stat_result) -> None:
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise ToolError(f"{path} is a directory; bash('ls') lists it")
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
        raise ToolError(
            f"{path} is {kinds.get(stat.S_IFMT(mode), 'no regular file')}; only regular files are read and written"
        )


def _new_file_mode() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
