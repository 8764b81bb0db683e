"""Lines from a terminal or a pipe, with a look at whether more is there. The reader never holds more than a bound."""

from __future__ import annotations

import os
import select
import sys

LINE_BYTES = 4_000_000
"""Of a line; what follows is dropped. The parser refuses far less."""
TERMINAL_BYTES = 1023 if sys.platform == "darwin" else 4095
"""A terminal that edits lines by itself keeps no more of a line than this."""
TURN_SECONDS = 0.2
PASTE_SECONDS = 0.1
"""How long the next line of a pasted text may take."""


class Lines:
    """The lines of one file descriptor, from its reading position on."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.is_terminal = os.isatty(descriptor)
        self._rest = b""
        self._pushed: list[str] = []
        self.ended = False
        """All that was written has been read, unless it is a terminal."""

    def next(self) -> str | None:
        """The next line without its end; None at the end of input. Bytes that are no UTF-8 become U+FFFD."""
        if self._pushed:
            return self._pushed.pop()
        dropped = False
        while b"\n" not in self._rest and not self.ended:
            if len(self._rest) > LINE_BYTES:
                self._rest, dropped = self._rest[:LINE_BYTES], True
            self._read()
        line, newline, rest = self._rest.partition(b"\n")
        if self.is_terminal and self.ended and not newline:
            self.ended = False  # a terminal goes on after Ctrl-D
            if not line:
                self._rest = b""
                return None
        if not newline and not line:
            return None
        self._rest = rest
        return (line[:LINE_BYTES] if dropped else line).decode("utf-8", "replace").removesuffix("\r")

    def push(self, line: str) -> None:
        """Put a line back: it is the next."""
        self._pushed.append(line)

    def waiting(self, seconds: float = PASTE_SECONDS) -> bool:
        """Whether there is more already: what was pasted, or what a pipe holds."""
        if self._pushed or b"\n" in self._rest:
            return True
        return not self.ended and bool(select.select([self.descriptor], [], [], seconds)[0])

    def _read(self) -> None:
        # In turns: a signal that comes just before a read that blocks would be noticed only after it.
        while not select.select([self.descriptor], [], [], TURN_SECONDS)[0]:
            pass
        try:
            part = os.read(self.descriptor, 65536)
        except OSError:  # the other end of a terminal is gone
            part = b""
        self._rest += part
        self.ended = not part
