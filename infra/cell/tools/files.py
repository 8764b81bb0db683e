"""The tools for files: `read_file`, `write_file`, `edit_file`, `delete_file`.

What is read is bounded and says when it is not the whole; what is written is there whole or not at all. An edit is
protected by `old`, which is literal; that the file has changed since this run saw it is told."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from infra.cell.actions import ToolResult
from infra.cell.clip import clip
from infra.cell.tools.edits import edited, is_elided
from infra.cell.tools.spill import Spill, is_image
from infra.cell.tools.tool import BRIEFLY, Args, SideEffect, Tool, ToolError
from infra.shared.conversation import MOST_IMAGE_BYTES
from infra.shared.safe_files import Below

READ_BYTES = 16 << 20
"""What is read of a file at most; `bash` has tools for larger ones."""
TIMEOUT_MS = 60_000
"""Only regular files of bounded size are touched, so nothing here waits for anybody: the disk alone takes its time."""
CHANGED = "the file has changed since this run read it; the rest of it may be other than you think"
ELIDED = "the content holds a line that stands for lines left out; it was written as it is"

# A path in quotes or with a mark of a list around it is none. `$` alone would let a newline at the end through.
_PATH = r"^[^\s`*#\"'<\x00-\x1f](?:[^\x00-\x1f]*[^\s`*\"':,>\x00-\x1f])?$(?!\n)"
Path = Annotated[str, Meta(pattern=_PATH)]
Count = Annotated[int, Meta(ge=1)]


class ReadFile(Args):
    """Read a text file, or look at an image; offset and limit count lines. Paths are from the checkout, or absolute."""

    path: Path
    offset: Annotated[int, Meta(ge=0)] = 0
    limit: Count | None = None


class WriteFile(Args):
    """Write a text file whole, with its directories."""

    path: Path
    content: str
    replace: Annotated[bool, Meta(description="false: the file must be new")] = True


class EditFile(Args):
    """Replace literal text in a file: old must occur exactly count times, 1 when left out."""

    path: Path
    old: str
    new: str
    count: Count = 1


class DeleteFile(Args):
    """Delete one file."""

    path: Path


def file_tools(checkout: str, output_chars: int, roots: Sequence[str] = ()) -> tuple[Tool, ...]:
    """With `roots`, a file must lie below one of them."""
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

    def read(given: ReadFile, seconds: float) -> ToolResult:
        real = located(given.path)
        raw, size = _content(real, given.path)
        seen[real] = _digest(raw)
        return _image(given.path, raw, size, spill) if is_image(raw) else _shown(given, raw, size, output_chars)

    def write(given: WriteFile, seconds: float) -> ToolResult:
        path, content = given.path, given.content.encode()
        real = located(path)
        if not given.replace and os.path.lexists(real):
            raise ToolError(f"{path} exists", 'Edit a part of it, or set "replace" to true')
        _write(real, path, content)
        seen[real] = _digest(content)
        warning = ELIDED if is_elided(given.content) else ""
        return _changed(f"wrote {len(content)} bytes to {path}", path, {"bytes": len(content)}, warning)

    def edit(given: EditFile, seconds: float) -> ToolResult:
        path = given.path
        real = located(path)
        raw, size = _content(real, path)
        if size > len(raw):
            raise ToolError(f"{path} has {size} bytes; at most {READ_BYTES} can be edited", "Change it by a program")
        made = edited(raw, given.old, given.new, given.count)
        changed = CHANGED if seen.get(real, _digest(raw)) != _digest(raw) else ""
        if made.content != raw:
            _write(real, path, made.content)
        seen[real] = _digest(made.content)
        warning = "; ".join(filter(None, (made.warning, changed)))
        return _changed(f"replaced {made.replaced} in {path}", path, {"replaced": made.replaced}, warning)

    def delete(given: DeleteFile, seconds: float) -> ToolResult:
        located(given.path)
        entry = os.path.join(checkout, given.path)
        if not os.path.islink(entry):  # which goes itself
            _refuse_unless_regular(entry, given.path)
        os.unlink(entry)
        return _changed(f"deleted {given.path}", given.path, {}, "")

    return (
        Tool("read_file", ReadFile, read, TIMEOUT_MS, SideEffect.READ, BRIEFLY),
        Tool("write_file", WriteFile, write, TIMEOUT_MS, SideEffect.WRITE, BRIEFLY),
        Tool("edit_file", EditFile, edit, TIMEOUT_MS, SideEffect.WRITE),
        Tool("delete_file", DeleteFile, delete, TIMEOUT_MS, SideEffect.WRITE),
    )


def _image(path: str, content: bytes, size: int, spill: Spill) -> ToolResult:
    """Raises ToolError for one that is too large to be shown."""
    if size > MOST_IMAGE_BYTES:
        raise ToolError(
            f"{path} is an image of {size} bytes; at most {MOST_IMAGE_BYTES} can be shown",
            "Make a smaller one by a program, and read that",
        )
    kept = spill.keep_image(content)
    return ToolResult(f"{path} is an image ({kept['path']})", facts={"path": path, "lines": 0, "image": kept})


def _shown(given: ReadFile, content: bytes, size: int, output_chars: int) -> ToolResult:
    """What is shown of a text. Raises ToolError for what is none."""
    if b"\0" in content:
        raise ToolError(f"{given.path} is binary ({size} bytes); look at it with file, xxd or strings")
    text = content.decode(errors="replace")
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)  # as sed counts them, not as Unicode does
    notes = []
    if "\ufffd" in text and "\ufffd".encode() not in content:
        notes.append("what is not UTF-8 is shown as \ufffd")
    if len(content) < size:
        notes.append(f"only the first {READ_BYTES} of {size} bytes were read; use bash with sed or tail for more")
    part = lines[given.offset :][: given.limit]
    if len(part) < len(lines):
        first, last = given.offset + 1, given.offset + len(part)
        notes.append(f"lines {first} to {last} of {len(lines)}" if part else f"the file has {len(lines)} lines")
    wanted = "".join(part)
    shown = clip(wanted, output_chars)
    is_whole = len(content) == size and len(part) == len(lines) and shown == wanted
    facts: dict[str, Any] = {"path": given.path, "lines": len(lines)} | ({} if is_whole else {"truncated": True})
    return ToolResult(shown, facts=facts | ({"notes": notes} if notes else {}))


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
    return ToolResult(words, artifacts=(path,), facts={"path": path, **facts, **told})


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()
