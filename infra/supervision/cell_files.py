"""Files of the cell that the watcher reads and opens: never through a link, never blocking, never without bound."""

from __future__ import annotations

import os
import re
import stat

from infra.contract import boot_log
from infra.contract.places import BOOT_LOG, ERROR_LOG

TAIL_BYTES = 64 * 1024
LAST_WORDS_LINES = 15
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]|\x1b\[[0-9;]*[A-Za-z]")


def tail(path: str, limit: int = TAIL_BYTES) -> bytes:
    """The last `limit` bytes of a regular file; nothing for what is missing or no regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        return os.pread(descriptor, limit, max(0, status.st_size - limit))
    finally:
        os.close(descriptor)


def boot_words(checkout: str, boot_id: str, branch: str, commit: str) -> dict[str, boot_log.BootLine]:
    """Word -> line of this very boot, as far as the boot log has them whole, in the right order.

    SUCCESS counts only after BOOTSTRAPPING (seed 001, Bootstrap Log Interpretation)."""
    found: dict[str, boot_log.BootLine] = {}
    for text in tail(f"{checkout}/{BOOT_LOG}").decode(errors="replace").splitlines(keepends=True):
        line = boot_log.parse_line(text) if text.endswith("\n") else None
        if line is None or (line.boot_id, line.branch, line.commit) != (boot_id, branch, commit):
            continue
        if line.word != boot_log.SUCCESS or boot_log.BOOTSTRAPPING in found:
            found[line.word] = line
    return found


def last_words(checkout: str, since_bytes: int) -> str:
    """The last lines of the error log that were written after it had `since_bytes`."""
    path = f"{checkout}/{ERROR_LOG}"
    content = tail(path)
    try:
        new = os.lstat(path).st_size - since_bytes
    except OSError:
        return ""
    lines = content[-new:].decode(errors="replace").splitlines() if new > 0 else []
    return "\n".join(_CONTROL.sub("", line)[:300] for line in lines[-LAST_WORDS_LINES:])


def open_error_log(checkout: str, rotate_over: int) -> tuple[int, int]:
    """A descriptor to append to `logs/errors.log`, and its size; one over `rotate_over` bytes is moved to `.1`.

    Raises OSError, also when a link or something that is no file stands in the way."""
    path = f"{checkout}/{ERROR_LOG}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path) and os.lstat(path).st_size > rotate_over:
        os.replace(path, f"{path}.1")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file; remove it")
    os.set_blocking(descriptor, True)
    return descriptor, status.st_size
