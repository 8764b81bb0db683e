"""Logs that are cut under their writers' hands."""

from __future__ import annotations

import os
import stat

from infra.shared.safe_files import Below

OLDER = ".1"
"""The suffix of a log's older part."""
MOST_KEPT = 1 << 20
"""Bytes of a log that are kept: they are held in memory, as a full disk takes them only after the log was cut."""


def cut_log(files: Below, path: str, keep_bytes: int = MOST_KEPT) -> int:
    """Cut a log to nothing in place, so that its writers go on; its end is kept in `.1`. Gives the bytes it had. Raises
    OSError.

    What is written between the two is lost. It is cut first: a full disk takes the rest only then."""
    with files.opened(path) as log:
        size = os.fstat(log.fileno()).st_size
        kept = min(keep_bytes, MOST_KEPT, size)
        end = os.pread(log.fileno(), kept, size - kept)
    descriptor, _ = files.open_to_append(path)
    try:
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)
    files.set_aside(f"{path}{OLDER}", unless=lambda mode: not stat.S_ISDIR(mode))
    files.write(f"{path}{OLDER}", end, durable=False)
    return size
