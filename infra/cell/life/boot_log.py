"""Appending to `logs/bootstrap.log`. Its first line is written before anything else is imported."""

import errno
import os


def append(path: str, line: str) -> None:
    """In one write, so that the lines of two writers never mix; what a full disk has cut of an earlier line is ended
    first. Raises OSError, also after a partial write."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    log = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        size = os.fstat(log).st_size
        is_torn = size > 0 and os.pread(log, 1, size - 1) != b"\n"
        content = b"\n" * is_torn + line.encode()
        if os.write(log, content) < len(content):
            raise OSError(errno.ENOSPC, "only a part of the line could be written", path)
    finally:
        os.close(log)
