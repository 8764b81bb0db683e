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
from infra.shared.secret_shapes import MARK, redacted, redacted_bytes, redacted_value

MOST_HELD = 1 << 16
"""Of a line that does not end; then it is written as it is."""


class RedactedFile:
    """The file at `path`, in a directory that is ours. All methods raise OSError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def replace(self, content: str | bytes, durable: bool = True) -> None:
        """In one step, on the disk when this returns if `durable`."""
        content = content.encode(errors="replace") if isinstance(content, str) else content
        write_whole(self._path, redacted_bytes(content), durable=durable)

    def replace_json(self, value: Any) -> None:
        write_whole(self._path, json.dumps(redacted_value(value)).encode())

    def append_json(self, value: Any) -> None:
        """As a line, in one write; the directory is made. Also raises ValueError and RecursionError for what no line
        can hold, and then nothing is written."""
        line = json.dumps(redacted_value(value)).encode() + b"\n"
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with open(self._path, "ab", buffering=0) as file:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def cut(self, size: int) -> None:
        """What stands behind so many bytes goes."""
        os.truncate(self._path, size)


_BEGUN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_ENDED = re.compile(r"-----END [A-Z0-9 ]{1,60}-----")
_IN_KEYS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:,. \t\r\n-"


class RedactedStream(io.TextIOBase):
    """Whole lines, redacted, to `write`; in place of the lines of a private key one mark."""

    def __init__(self, write: Callable[[bytes], object], descriptor: int) -> None:
        self._write = write
        self._descriptor = descriptor
        self._held = ""
        self._in_key = False
        self._lock = RLock()

    def write(self, text: str) -> int:
        with self._lock:
            whole, end, self._held = (self._held + text).rpartition("\n")
            if len(self._held) > MOST_HELD:
                whole, end, self._held = f"{whole}{end}{self._held}", "", ""
            self._emit(whole + end)
        return len(text)

    def end(self) -> None:
        """Nothing more comes: a line without its end is written too."""
        with self._lock:
            held, self._held = self._held, ""
            self._emit(held)

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def _emit(self, text: str) -> None:
        has_key = self._in_key or "-----BEGIN " in text
        if shown := "".join(map(self._shown, text.splitlines(keepends=True))) if has_key else redacted(text):
            try:
                self._write(shown.encode(errors="backslashreplace"))
            except OSError:
                return  # a full disk: there is nowhere left to say so

    def _shown(self, line: str) -> str:
        if self._in_key:
            ended = _ENDED.search(line)
            if ended is None and not line.strip(_IN_KEYS):
                return ""
            self._in_key = False
            line = line[ended.end() :] if ended else f"\n{line}"
        begun = _BEGUN.search(line)
        if begun and not line[begun.end() :].strip(_IN_KEYS) and not _ENDED.search(line):
            self._in_key = True
            return redacted(line[: begun.start()]) + MARK
        return redacted(line)


def guard_stderr() -> None:
    """Called by a program as it begins: what it prints, and the tracebacks that end it, are redacted."""
    import threading

    stream = RedactedStream(lambda content: os.write(2, content), 2)
    atexit.register(stream.end)

    def show(kind: type[BaseException], error: BaseException | None, trace: Any, where: str = "") -> None:
        import traceback  # costs a start more than all of this

        stream.write(where + "".join(traceback.format_exception(kind, error, trace)))

    def show_of_thread(told: threading.ExceptHookArgs) -> None:
        if told.exc_type is not SystemExit:
            name = told.thread.name if told.thread else "a thread"
            show(told.exc_type, told.exc_value, told.exc_traceback, f"Exception in {name}:\n")

    sys.stderr = stream
    sys.excepthook = show
    threading.excepthook = show_of_thread
