"""What of the mind is in no commit, for a backup: its events, and its scratch files. A tar of plain files, read as
strictly as the archive that it lies in.

The agent wrote them: no link is followed, what is no plain file is left out, and so is what does not fit, the newest
events first and scratch last."""

from __future__ import annotations

import os
import re
import stat
import tarfile
from collections.abc import Iterator

from host.agent.archive import BLOCK, BOUNDS, MIND, Archive
from host.display import counted, one_line
from host.errors import failure
from infra.shared.mind.event_log import event_files
from infra.shared.mind.layout import EVENTS, SCRATCH
from infra.shared.safe_files import Below, Entry, Unseen
from infra.shared.text import cut

MOST_FILES = 20_000
MOST_DEPTH = 12
FILE_BYTES = 256 << 20
MOST_NAMED = 3
_EVENTS = re.compile(re.escape(EVENTS) + r"/\d{4}-\d\d-\d\d\.jsonl", re.ASCII)


def pack(mind: Below, path: str, most: int = BOUNDS[MIND]) -> list[str]:
    """Write the part to `path`; gives the files that are left out. Raises OSError for `path` alone."""
    left_out = list[str]()
    room, files = most - tarfile.RECORDSIZE, 0
    with open(path, "wb") as out, tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in _names(mind, left_out):
            size = _size(mind, name)
            needed = tarfile.BLOCKSIZE + size + -size % tarfile.BLOCKSIZE
            if size < 0 or size > FILE_BYTES or needed > room or files >= MOST_FILES:
                left_out.append(name)
                continue
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = size, 0o600
            try:
                entry.tobuf(tarfile.USTAR_FORMAT)  # its name may be too long
                with mind.opened(name) as file:
                    archive.addfile(entry, _Exactly(file.read, size))
            except (OSError, ValueError):
                left_out.append(name)
                continue
            room, files = room - needed, files + 1
    return left_out


def unpack(part: str, root: str) -> int:
    """The files of a part, into the new mind at `root`, which is made when there is one; gives how many. Raises
    CommandError, OSError."""
    done = 0
    with open(part, "rb") as packed:
        for name, blocks in Archive(os.path.basename(part), packed).files():
            if done >= MOST_FILES or not _may_be(name):
                raise failure(f"{MIND} holds {cut(name, 80)!a}, which no backup does; nothing was restored")
            target = os.path.join(root, name)
            try:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "xb") as out:
                    out.writelines(blocks)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise failure(f"{MIND} holds {cut(name, 80)!a} twice; nothing was restored") from None
            done += 1
    return done


def words_of(left_out: list[str]) -> str:
    """For the PM."""
    named = ", ".join(one_line(name, 60) for name in left_out[:MOST_NAMED])
    return f"{counted(len(left_out), 'file')} of the mind ({named}{' …' if len(left_out) > MOST_NAMED else ''})"


class _Exactly:
    """A file that grows or shrinks meanwhile, as the size that was told: what is missing is an empty line's end."""

    def __init__(self, read: object, size: int) -> None:
        self._read, self._left = read, size

    def read(self, most: int = -1) -> bytes:
        wanted = self._left if most < 0 else min(most, self._left)
        content: bytes = self._read(min(wanted, BLOCK))  # type: ignore[operator]
        content = content or b"\n" * min(wanted, BLOCK)
        self._left -= len(content)
        return content


def _names(mind: Below, left_out: list[str]) -> Iterator[str]:
    try:
        yield from reversed(event_files(mind))
    except OSError:
        left_out.append(EVENTS)
    if mind.status(SCRATCH) is None:
        return
    for entry in mind.walk(SCRATCH, depth=MOST_DEPTH, most=10 * MOST_FILES, enter=_is_entered):
        if isinstance(entry, Unseen):
            left_out.append(entry.path)
        elif not stat.S_ISDIR(entry.status.st_mode):
            if stat.S_ISREG(entry.status.st_mode) and _may_be(entry.path):
                yield entry.path
            else:
                left_out.append(entry.path)


def _is_entered(entry: Entry) -> bool:
    """Repositories are not backed up from here."""
    return os.path.basename(entry.path) != ".git"


def _may_be(name: str) -> bool:
    parts = name.split("/")
    if parts[0] != SCRATCH:
        return _EVENTS.fullmatch(name) is not None
    return len(parts) > 1 and name.isprintable() and not {"", ".", "..", ".git"} & set(parts)


def _size(mind: Below, name: str) -> int:
    status = mind.status(name)
    return status.st_size if status and stat.S_ISREG(status.st_mode) else -1
