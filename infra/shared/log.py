"""The logs of our programs: events `dotted.past_tense` with their facts, one JSON object a line.

Our own, because a library for it takes longer to load than all else that a watcher needs to start."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from infra.shared.clock import timestamp

Write = Callable[[str], None]
"""Takes one line, without its end, and never fails: no work may end for want of a log line."""


class Log(NamedTuple):
    """Never changes; `bind` gives another that adds facts to each line."""

    write: Write
    bound: Mapping[str, object] = {}

    def bind(self, **facts: object) -> Log:
        return self._replace(bound={**self.bound, **facts})

    def info(self, event: str, **facts: object) -> None:
        self.write(line("info", event, {**self.bound, **facts}))

    def warning(self, event: str, **facts: object) -> None:
        self.write(line("warning", event, {**self.bound, **facts}))

    def error(self, event: str, *, exc_info: BaseException | None = None, **facts: object) -> None:
        """`exc_info`: what was caught, to be shown with its traceback."""
        self.write(line("error", event, {**self.bound, **facts}, exc_info))

    def exception(self, event: str, **facts: object) -> None:
        """The same, for the exception that is being handled."""
        self.write(line("error", event, {**self.bound, **facts}, sys.exception()))


def line(level: str, event: str, facts: Mapping[str, object], error: BaseException | None = None) -> str:
    """One entry of a log. What JSON has no form for is shown by its `repr`."""
    entry: dict[str, object] = {"timestamp": timestamp(time.time()), **facts, "event": event, "level": level}
    if error is not None:
        import traceback  # loads the parser's modules, for what seldom happens

        entry["exception"] = "".join(traceback.format_exception(error)).rstrip("\n")
    return json.dumps(entry, default=repr)


def to_stderr(text: str) -> None:
    """In one write, straight to the descriptor."""
    _write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text)


class RotatedFile:
    """Writes lines to a file that is moved to `.1` before it would pass `most` bytes."""

    def __init__(self, path: str, most: int) -> None:
        """Raises OSError."""
        self._path, self._most = path, most
        self._file = self._open()

    def __call__(self, text: str) -> None:
        try:
            size = os.fstat(self._file).st_size
            if size and size + len(text) >= self._most:
                os.replace(self._path, f"{self._path}.1")
                full, self._file = self._file, self._open()
                os.close(full)
        except OSError:  # then the file grows
            pass
        _write(self._file, text)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)


def _write(descriptor: int, text: str) -> None:
    try:
        os.write(descriptor, f"{text}\n".encode(errors="replace"))
    except OSError:
        return  # a full disk: there is nowhere left to say so
