"""Files of the cell that the watcher reads and opens: never through a link, never blocking, never without bound.

What stands in the way of a file that has to be there is moved aside, never deleted: it may be somebody's work, and
main has to start all the same."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable

from infra.shared import boot_log
from infra.shared.places import BOOT_LOG, ERROR_LOG, HOMES, LIFE_FILE, Places
from infra.shared.trim import MOST_KEPT, trim_log

TAIL_BYTES = 64 * 1024
LAST_WORDS_LINES = 15
_CHATTER = re.compile(r'^\{.*"level": ?"(debug|info)"')
"""An entry of a structured log that tells of nothing wrong: nobody's last words."""
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def tail(path: str, limit: int = TAIL_BYTES) -> bytes:
    """The last `limit` bytes of a regular file; nothing for what is missing, cannot be read or is no regular file."""
    try:
        descriptor = _open_here(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b""
        return os.pread(descriptor, limit, max(0, status.st_size - limit))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _open_here(path: str, flags: int) -> int:
    """Open without following a link, be it the file itself or its directory (`logs`). Raises OSError."""
    safe = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | safe)
    try:
        return os.open(os.path.basename(path), flags | safe, 0o644, dir_fd=directory)
    finally:
        os.close(directory)


REMOVED = "minifram.removed-"
"""With its inode behind it: the name of what `excess.clearing` removes whenever it comes round."""


def make_home(places: Places, boot_id: str) -> None:
    """An empty HOME for this boot; those of earlier boots are left to be removed. Raises OSError.

    What a version left in its HOME (pip.conf, .profile, a user site) is read by whatever starts there, so a version
    that was rolled back would go on acting through it."""
    for name in os.listdir(places.bot):
        if name.startswith(HOMES):
            path = f"{places.bot}/{name}"
            with contextlib.suppress(OSError):  # nobody reads one that stays
                os.rename(path, f"{places.bot}/{REMOVED}{os.lstat(path).st_ino}")
    os.mkdir(places.home(boot_id), 0o700)


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
    telling = [line for line in lines if not _CHATTER.match(line)]
    return "\n".join(_CONTROL.sub("", line)[:300] for line in telling[-LAST_WORDS_LINES:])


def open_error_log(checkout: str, rotate_over: int) -> tuple[int, int]:
    """A descriptor to append to `logs/errors.log`, and its size, with all of `logs/` made fit for a boot.

    Of a log over `rotate_over` bytes only the end is kept, in `.1`: however much was written since anybody last looked,
    it takes no more room than that from then on. Raises OSError."""
    set_aside_unless(stat.S_ISDIR, f"{checkout}/{os.path.dirname(ERROR_LOG)}")
    os.makedirs(f"{checkout}/{os.path.dirname(ERROR_LOG)}", exist_ok=True)
    for name in (BOOT_LOG, ERROR_LOG, LIFE_FILE):
        path = f"{checkout}/{name}"
        set_aside_unless(stat.S_ISREG, path)
        if os.path.lexists(path) and os.lstat(path).st_size > rotate_over:
            trim_log(checkout, name, MOST_KEPT)
    descriptor = _open_here(f"{checkout}/{ERROR_LOG}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{checkout}/{ERROR_LOG} is not a regular file; remove it")
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status.st_size


def set_aside_unless(wanted: Callable[[int], bool], path: str) -> str:
    """Rename what is at `path` when its mode is not of the wanted kind; gives the new name. Raises OSError.

    A link is looked at itself, so it is never of the wanted kind."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return ""
    if wanted(mode):
        return ""
    aside = f"{path}.aside-{time.time_ns()}"
    os.rename(path, aside)
    return aside
