"""The secrets that this machine knows, for those who must keep them out of what they write."""

from __future__ import annotations

import os
import stat

MAX_SECRET_BYTES = 64 * 1024


def read_known(directory: str) -> tuple[bytes, ...]:
    """The secrets in a directory, each file one; of one with several lines also each long word that stands alone on a
    line. Raises OSError.

    A directory that does not exist holds none: no model needs a key then."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return ()
    known: dict[bytes, None] = {}
    for name in names:
        # Nonblocking, should it be a FIFO without a writer.
        descriptor = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                continue
            content = os.read(descriptor, MAX_SECRET_BYTES).strip()
        finally:
            os.close(descriptor)
        lines = [line.strip() for line in content.splitlines()]
        known |= dict.fromkeys([content, *(line for line in lines if len(line) >= 16 and b" " not in line)])
    return tuple(known)
