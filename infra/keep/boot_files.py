"""The files in a checkout that the keep reads and prepares for one boot: the boot log, the error log, HOME."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time

from infra.keep.cut_logs import cut_log
from infra.shared import boot
from infra.shared.paths import BOOT_LOG, ERROR_LOG, HOMES, LIFE_FILE, RECORDS
from infra.shared.safe_files import Below
from infra.shared.secret_shapes import redacted
from infra.shared.text import cut

TAIL_BYTES = 64 * 1024
LAST_WORDS_LINES = 15
_ENTRIES = 10_000
_REMOVE_SECONDS = 5.0
_CHATTER = re.compile(r'^\{.*"level": ?"(debug|info)"')
"""A structured log entry below warning level, which is never the cause of a death."""
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def make_home(bot: Below, home: str) -> None:
    """An empty HOME for a boot; earlier ones are removed. Raises OSError.

    What a version leaves in HOME (pip.conf, .profile, a user site) would affect every later version, even after a
    rollback."""
    until = time.monotonic() + _REMOVE_SECONDS
    for name in bot.names("", _ENTRIES):
        left = until - time.monotonic()
        if name.startswith(HOMES) and left > 0:
            with contextlib.suppress(OSError):  # nobody reads one that stays
                bot.remove(name, left)
    bot.make_directory(home, 0o700)


def boot_words(bot: Below, checkout: str, boot_id: str, branch: str, commit: str) -> dict[str, boot.BootLine]:
    """The runner's lines of this boot by their word, as far as the boot log has them complete and in order.

    SUCCESS counts only after BOOTSTRAPPING (seed 001, Bootstrap Log Interpretation)."""
    found: dict[str, boot.BootLine] = {}
    for text in bot.tail(f"{checkout}/{BOOT_LOG}", TAIL_BYTES).decode(errors="replace").splitlines(keepends=True):
        line = boot.parse_line(text) if text.endswith("\n") else None
        if line is None or (line.boot_id, line.branch, line.commit) != (boot_id, branch, commit):
            continue
        if line.details.get(boot.BY) == boot.WATCHER:
            continue
        if line.word != boot.SUCCESS or boot.BOOTSTRAPPING in found:
            found[line.word] = line
    return found


def add_to_boot_log(bot: Below, checkout: str, line: boot.BootLine) -> None:
    """Append the watcher's line in one write. Raises OSError.

    What a full disk or the cell left without an end is made a line that does not parse."""
    path = f"{checkout}/{BOOT_LOG}"
    bot.make_directory(os.path.dirname(path))
    bot.set_aside(path, unless=stat.S_ISREG)
    descriptor, size = bot.open_to_append(path)
    try:
        torn = size > 0 and bot.tail(path, 1) != b"\n"
        content = b" (torn)\n" * torn + boot.format_line(line).encode()
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(descriptor)


def last_words(bot: Below, checkout: str, since_bytes: int) -> str:
    """The last lines of the error log that were written after it had `since_bytes`."""
    status = bot.status(f"{checkout}/{ERROR_LOG}")
    if status is None or status.st_size <= since_bytes:
        return ""
    most = min(TAIL_BYTES, status.st_size - since_bytes)
    new = bot.tail(f"{checkout}/{ERROR_LOG}", most).decode(errors="replace").splitlines()
    # All lines together: a key may have several.
    telling = redacted("\n".join(_CONTROL.sub("", line) for line in new if not _CHATTER.match(line))).split("\n")
    return "\n".join(cut(line, 300) for line in telling[-LAST_WORDS_LINES:])


def open_error_log(bot: Below, checkout: str, rotate_over: int) -> tuple[int, int]:
    """A descriptor to append to `logs/errors.log`, and its size; prepares all of `logs/` for a boot. Of a log over
    `rotate_over` bytes only the end is kept, in `.1`; the boot log, a record, is set aside whole. Raises OSError."""
    bot.make_directory(f"{checkout}/{os.path.dirname(ERROR_LOG)}")
    for name in (BOOT_LOG, ERROR_LOG, LIFE_FILE):
        path = f"{checkout}/{name}"
        bot.set_aside(path, unless=stat.S_ISREG)
        status = bot.status(path)
        if status and status.st_size > rotate_over and name in RECORDS:
            bot.set_aside(path, unless=lambda _: False)
        elif status and status.st_size > rotate_over:
            cut_log(bot, path)
    return bot.open_to_append(f"{checkout}/{ERROR_LOG}")
