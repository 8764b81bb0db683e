"""Reading what the keep wrote for the PM. In the container its state is written from inside: whoever were root there
could put a pipe, a link or a file without end in the place of any of these; the PM's command must not wait for it."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

MOST_BYTES = 16 << 20


def opened(path: str) -> BinaryIO:
    """A regular file, for reading. Raises FileNotFoundError, OSError, and ValueError for anything else there is."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError(_NOT_REGULAR.format(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(_NOT_REGULAR.format(path))
    return os.fdopen(descriptor, "rb")


def whole(path: str, most: int = MOST_BYTES) -> bytes:
    """The file's content. Raises as `opened` does, and ValueError for one of more than `most` bytes."""
    with opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} has more than {most:,} bytes, which minifram never writes there; look what did")
    return content


_NOT_REGULAR = "{} is no regular file, which minifram never puts there; look what did, and remove it"
