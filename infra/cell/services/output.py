"""What a service prints: it comes over a pipe, and goes redacted, into a log that cannot grow beyond its limit."""

from __future__ import annotations

import codecs
import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable

from infra.shared.redacted_file import RedactedStream
from infra.shared.safe_files import Below

MOST_BYTES = 4 << 20
"""A log that would grow beyond is begun anew."""
FLOOD_SECONDS = 60.0
"""A service that fills its log twice within so long is not listened to any more."""
READ_BYTES = 1 << 16


class ServiceLog:
    """The log at `path` below a checkout, over all starts of its service."""

    def __init__(self, files: Below, path: str, most_bytes: int = MOST_BYTES) -> None:
        self.flood = ""
        """In words, if the present run wrote too much. Its pipe is closed then, so that it cannot go on."""
        self._files = files
        self._path = path
        self._most = most_bytes
        self._cut_at = -FLOOD_SECONDS

    def pipe(self) -> int:
        """An end to write to, for one start of the service. Raises OSError."""
        self._files.set_aside(self._path, unless=stat.S_ISREG)  # another pipe there would block the reader for ever
        log, _ = self._files.open_to_append(self._path)
        try:
            read_end, write_end = os.pipe()
        except OSError:
            os.close(log)
            raise
        self.flood = ""
        threading.Thread(target=self._copy, args=(read_end, log), daemon=True).start()
        return write_end

    def _copy(self, pipe: int, log: int) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        stream = stream_to(log, self._most, self._emptied)
        with contextlib.suppress(OSError):
            while not self.flood and (read := os.read(pipe, READ_BYTES)):
                stream.write(decoder.decode(read))
            stream.write(decoder.decode(b"", final=True))
            stream.end()
        os.close(pipe)
        os.close(log)

    def _emptied(self) -> None:
        now = time.monotonic()
        since, self._cut_at = now - self._cut_at, now
        if since < FLOOD_SECONDS:
            self.flood = f"it wrote over {self._most >> 20} MiB of output in {since:.0f} s"


def stream_to(log: int, most_bytes: int, emptied: Callable[[], object]) -> RedactedStream:
    """To the open log of this descriptor, which never holds more than so much: before it would, it is emptied."""

    def append(content: bytes) -> None:
        if os.fstat(log).st_size + len(content) > most_bytes:
            os.ftruncate(log, 0)
            emptied()
        os.write(log, content[-most_bytes:])

    return RedactedStream(append, log)
