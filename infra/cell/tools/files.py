"""The tools for files: `read_file`, `write_file`, `edit_file`, `delete_file`.

What is read is bounded and says when it is not the whole; what is written is there whole or not at all. An edit is
protected by `old`, which is literal: one that needs a guess is asked for again. That the file has changed since this
run saw it is told."""

from __future__ import annotations

import difflib
import os
import re
import stat
from typing import Annotated, Any

from msgspec import Meta

from infra.cell.actions import ToolResult
from infra.cell.clip import clip
from infra.cell.tools.spill import Spill, digest_of, is_image
from infra.cell.tools.tool import BRIEFLY, Args, Tool, ToolError
from infra.shared.conversation import MOST_IMAGE_BYTES
from infra.shared.files import write_whole
from infra.shared.policy import READ, WRITE

READ_BYTES = 16 << 20
"""What is read of a file at most; `bash` has tools for larger ones."""
TIMEOUT_MS = 60_000
"""Only regular files of bounded size are touched, so nothing here waits for anybody: the disk alone takes its time."""
CHANGED = "the file has changed since this run read it; the rest of it may be other than you think"
MOST_LINES, MOST_LINE_CHARS = 2000, 200
"""Of a file, when the nearest line is looked for."""

# A path in quotes, with a mark of a list around it, or for a shell to expand is none. `$` alone would let a newline at
# the end through.
_PATH = r"^[^\s`*#\"'<~\x00-\x1f](?:[^\x00-\x1f]*[^\s`*\"':,>\x00-\x1f])?$(?!\n)"
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


def file_tools(checkout: str, output_chars: int) -> tuple[Tool, ...]:
    spill = Spill(checkout)
    seen: dict[str, str] = {}
    """Digests of files as this run has seen them last."""

    def located(path: str) -> str:
        """Without links."""
        return os.path.realpath(os.path.join(checkout, path))

    def read(given: ReadFile) -> ToolResult:
        real = located(given.path)
        raw, size = _content(real, given.path)
        seen[real] = digest_of(raw)
        return _image(given.path, raw, size, spill) if is_image(raw) else _shown(given, raw, size, output_chars)

    def write(given: WriteFile) -> ToolResult:
        path, content = given.path, given.content.encode()
        real = located(path)
        if not given.replace and os.path.lexists(real):
            raise ToolError(f"{path} exists", 'Edit a part of it, or set "replace" to true')
        _write(real, path, content)
        seen[real] = digest_of(content)
        return _changed(f"wrote {len(content)} bytes to {path}", path, {"bytes": len(content)})

    def edit(given: EditFile) -> ToolResult:
        path = given.path
        real = located(path)
        raw, size = _content(real, path)
        if size > len(raw):
            raise ToolError(f"{path} has {size} bytes; at most {READ_BYTES} can be edited", "Change it by a program")
        made = edited(raw, given.old, given.new, given.count)
        facts: dict[str, Any] = {"replaced": given.count}
        if seen.get(real, digest_of(raw)) != digest_of(raw):
            facts["warning"] = CHANGED
        _write(real, path, made)
        seen[real] = digest_of(made)
        return _changed(f"replaced {given.count} in {path}", path, facts)

    def delete(given: DeleteFile) -> ToolResult:
        os.unlink(os.path.join(checkout, given.path))
        return _changed(f"deleted {given.path}", given.path, {})

    return (
        Tool("read_file", ReadFile, read, TIMEOUT_MS, READ, BRIEFLY),
        Tool("write_file", WriteFile, write, TIMEOUT_MS, WRITE, BRIEFLY),
        Tool("edit_file", EditFile, edit, TIMEOUT_MS, WRITE),
        Tool("delete_file", DeleteFile, delete, TIMEOUT_MS, WRITE),
    )


def edited(content: bytes, old: str, new: str, count: int) -> bytes:
    """With `new` in place of each `old`. Raises ToolError unless `old` occurs exactly `count` times."""
    if not old or old == new:
        raise ToolError("old is empty, or new equals it; expected text that the file holds, and another for it")
    found = content.count(old.encode())
    if found == count:
        return content.replace(old.encode(), new.encode())
    if found:
        words = f"old occurs {found} times; expected {count}"
        raise ToolError(words, "Make old longer, so that it is found once, or set count")
    near = _nearest(content.decode(errors="replace"), old)
    raise ToolError(f"old does not occur; expected it {count} times{near}", "Read the file, and copy old from it")


def _nearest(text: str, old: str) -> str:
    """Words for the line that is most like the first one of `old`; empty when none is."""
    first = next((line for line in old.split("\n") if line.strip()), "")[:MOST_LINE_CHARS]
    lines = [line[:MOST_LINE_CHARS] for line in text.split("\n")[:MOST_LINES]]
    near = difflib.get_close_matches(first, lines, 1)
    return f". The nearest line is {lines.index(near[0]) + 1}: {near[0]}" if near else ""


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
    with open(real, "rb") as file:
        content = file.read(READ_BYTES)
        return content, max(len(content), status.st_size)


def _write(real: str, path: str, content: bytes) -> None:
    """In one step; the file keeps its mode, and missing directories are made."""
    mode = stat.S_IMODE(_refuse_unless_regular(real, path).st_mode) if os.path.lexists(real) else None
    os.makedirs(os.path.dirname(real), exist_ok=True)
    write_whole(real, content, 0o666 if mode is None else mode, durable=False)
    if mode is not None:
        os.chmod(real, mode)  # also what the umask takes from a new file


def _changed(words: str, path: str, facts: dict[str, Any]) -> ToolResult:
    return ToolResult(words, artifacts=(path,), facts={"path": path, **facts})
