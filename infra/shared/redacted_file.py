"""Files that hold what somebody else wrote: `RedactedFile` is the only way to write them, so no key can get into one.

Those are the agent's logs and records: transcripts, whole outputs, unsent reports, the notes of a run. What a program
writes to stderr, and so to logs/errors.log or doors.log, goes through `guard_stderr`, its log lines through
`shared/log`."""

from __future__ import annotations

import atexit
import errno
import io
import json
import os
import re
import sys
from _thread import RLock  # what `threading` offers under this name, without the cost of importing it
from collections.abc import Callable
from typing import Any

from infra.shared.files import write_whole
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted, redacted_bytes, redacted_value

MOST_HELD = 1 << 16
"""Of a line that does not end."""


class RedactedFile:
    """The file at `path`, in a directory that is ours. All methods raise OSError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def replace(self, content: str | bytes) -> None:
        """In one step, on the disk when this returns."""
        content = content.encode(errors="replace") if isinstance(content, str) else content
        write_whole(self._path, redacted_bytes(content))

    def replace_json(self, value: Any) -> None:
        write_whole(self._path, _line(value))

    def append_json(self, value: Any) -> None:
        """As a line, in one write; the directory is made. Also raises ValueError and RecursionError for what no line
        can hold, and then nothing is written."""
        line = _line(value) + b"\n"
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with open(self._path, "ab", buffering=0) as file:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end_torn_line(self) -> None:
        """A power cut may have left half a line."""
        with open(self._path, "r+b", buffering=0) as file:
            if file.seek(0, os.SEEK_END) and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
                file.write(b"\n")


class RedactedLines:
    """Files of JSON lines in a directory that others may write to as well: no link is followed, no pipe waited for."""

    def __init__(self, below: Below) -> None:
        self._below = below

    def append(self, path: str, value: Any, as_line: Callable[[Any], bytes], before: bytes = b"") -> int:
        """What `as_line` makes of the redacted value, its end included, in one write; gives the size of the file then.
        Nothing of it is left when it cannot be written whole. `before` ends a line that was torn.

        Raises OSError, and what `as_line` raises."""
        line = before + as_line(redacted_value(value))
        file, size = self._below.open_to_append(path)
        try:
            written = os.write(file, line)
            if written != len(line):
                os.ftruncate(file, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return size + written
        finally:
            os.close(file)


def _line(value: Any) -> bytes:
    return json.dumps(redacted_value(value)).encode()


_BEGUN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_IN_KEYS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:,. \t\r\n-"
NEAR, BORDERS_TRIED, WORDS_HELD = 1 << 13, 20, 4


def _begun_at(text: str) -> int:
    """Where the line begins in which a private key begins whose end has not come; the end of `text` without one.

    From the end, as a pattern for all of it would try each beginning up to the end."""
    rest = max(len(text.rstrip(_IN_KEYS)), text.rfind("-----END") + 1)
    begun = _BEGUN.search(text, rest)
    return text.rfind("\n", 0, begun.start()) + 1 if begun else len(text)


def _border(text: str) -> int:
    """Where a line that is too long is cut: where no secret is seen across it, and before its last words, to which the
    next may belong. Without spaces it is cut where it ends."""
    near = text[-NEAR:]
    shown = redacted(near)
    for border in [found.end() for found in re.finditer(r"\s+", near)][-BORDERS_TRIED:-WORDS_HELD][::-1]:
        if redacted(near[:border]) + redacted(near[border:]) == shown:
            return len(text) - len(near) + border
    return len(text)


class RedactedStream(io.TextIOBase):
    """Whole lines, redacted, to `write`. Lines of a private key wait for its end, as long as there is room."""

    def __init__(self, write: Callable[[bytes], object], descriptor: int) -> None:
        self._write = write
        self._descriptor = descriptor
        self._held = ""
        self._lock = RLock()

    def write(self, text: str) -> int:
        with self._lock:
            text = self._held + text
            at = min(_begun_at(text), text.rfind("\n") + 1)
            at = at if len(text) - at <= MOST_HELD else _border(text)
            whole, self._held = text[:at], text[at:]
            if whole:
                self._emit(whole)
        return len(text)

    def end(self) -> None:
        """Nothing more comes: a line without its end is written too."""
        with self._lock:
            if self._held:
                held, self._held = self._held, ""
                self._emit(held)

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def _emit(self, text: str) -> None:
        try:
            self._write(redacted(text).encode(errors="backslashreplace"))
        except OSError:
            return  # a full disk: there is nowhere left to say so


def stream_to(log: int, most_bytes: int, emptied: Callable[[], object]) -> RedactedStream:
    """To the open log of this descriptor, which never holds more than so much: before it would, it is emptied."""

    def append(content: bytes) -> None:
        if os.fstat(log).st_size + len(content) > most_bytes:
            os.ftruncate(log, 0)
            emptied()
        os.write(log, content[-most_bytes:])

    return RedactedStream(append, log)


def guard_stderr() -> None:
    """Called by a program as it begins: what it prints, and the tracebacks that end it, are redacted."""
    stream = RedactedStream(lambda content: os.write(2, content), 2)
    atexit.register(stream.end)

    def show(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        import traceback  # costs a start more than all of this

        stream.write("".join(traceback.format_exception(kind, error, trace)))

    def show_of_thread(told: Any) -> None:
        import traceback

        if told.exc_type is not SystemExit:
            name = told.thread.name if told.thread else "a thread"
            text = "".join(traceback.format_exception(told.exc_type, told.exc_value, told.exc_traceback))
            stream.write(f"Exception in {name}:\n{text}")

    sys.stderr = stream
    sys.excepthook = show
    import threading

    threading.excepthook = show_of_thread
