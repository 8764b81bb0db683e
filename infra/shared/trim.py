"""Cutting a log that somebody is writing: its end is kept in a file beside it, and the log itself begins anew in
place, so that whoever has it open to append goes on and need not know. What is written between the two is lost."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time

from infra.shared.below import open_directory, open_file

MOVED_ASIDE = ".1"
"""What a log's older part is called."""
MOST_KEPT = 1 << 20
"""The end is held in memory: a disk that is full takes it only after the log was cut."""
_PART = 1 << 16


def trim_log(bot: str, name: str, keep_bytes: int) -> int:
    """Cut `bot`/`name` to nothing, its last `keep_bytes` (at most 1 MiB) moved to `.1`; gives the bytes it had.

    Called as the cell (`Identity.acting`). No link is followed below `bot`, and nothing blocks. Raises OSError; then
    either nothing was changed, or the log is cut and only its end could not be kept."""
    where, _, file_name = name.rpartition("/")
    directory = open_directory(bot, where or ".")
    try:
        log = open_file(directory, file_name, os.O_RDWR)
        try:
            size = os.fstat(log).st_size
            end = _end_of(log, size, min(keep_bytes, MOST_KEPT))
            try:
                _keep(directory, file_name, end)
            except OSError as error:
                os.ftruncate(log, 0)
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                _keep(directory, file_name, end)
            os.ftruncate(log, 0)
            return size
        finally:
            os.close(log)
    finally:
        os.close(directory)


def _end_of(log: int, size: int, most: int) -> bytes:
    parts, position = [], max(0, size - most)
    while position < size and (part := os.pread(log, min(_PART, size - position), position)):
        parts.append(part)
        position += len(part)
    return b"".join(parts)


def _keep(directory: int, name: str, content: bytes) -> None:
    """Write `<name>.1`, whole or not at all; what is there and no file is moved aside first. Raises OSError."""
    kept = f"{name}{MOVED_ASIDE}"
    temporary = f".{name}.{os.getpid()}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, 0o644, dir_fd=directory)
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
        finally:
            os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(kept, dir_fd=directory, follow_symlinks=False).st_mode):
                os.rename(kept, f"{kept}.aside-{time.time_ns()}", src_dir_fd=directory, dst_dir_fd=directory)
        os.replace(temporary, kept, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
