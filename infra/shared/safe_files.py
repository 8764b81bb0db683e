"""The cell's files, touched by the keep and the host: `Below` is the only way to them.

Every method acts as the given identity, follows no link on any step below the root, never waits for a pipe or a
device, and reads at most what it is told. So a file that the agent swaps for a link to the keep's own, before or
while it is touched, gains nothing: the kernel refuses the open."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
import time
from _thread import get_ident  # what `threading` offers under this name, without the cost of importing it
from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO, NamedTuple

from infra.shared.safe_steps import SAFE, NotPlain, Steps

OLDER = ".1"
"""The suffix of a log's older part."""
REMOVED = "minifram.removed-"
"""With its inode behind it: the name of what the keep's next tidying removes."""
MOST_KEPT = 1 << 20
"""Bytes of a log that `cut` keeps: they are held in memory, as a full disk takes them only after the log was cut."""
MOST_WHOLE = 16 << 20
_BATCH = 256
_RM_SECONDS = 120.0


class Entry(NamedTuple):
    path: str
    """Below the root."""
    status: os.stat_result


class Unseen(NamedTuple):
    """An entry that could not be read, and why."""

    path: str
    why: str
    at_bound: bool = False
    """The walk ended at its own limit."""


class Piece(NamedTuple):
    """A part of a file, and where it ends."""

    content: bytes
    end: int
    """Offset just behind `content`."""
    identity: int
    """The inode: another one means that the file was replaced."""
    modified: float


class Below(Steps):
    """What lies below `root`, which itself may be reached by links. Paths are relative to it, or begin with it.

    All methods raise OSError unless they say otherwise."""

    # Reading

    def tail(self, path: str, most: int) -> bytes:
        """The last `most` bytes; nothing for what is missing, cannot be read or is not a regular file. Never raises."""
        piece = self.piece(path, most)
        return piece.content if piece else b""

    def piece(self, path: str, most: int, start: int | None = None) -> Piece | None:
        """Up to `most` bytes from `start`, or from the beginning when the file is shorter by now; without `start`, the
        last ones. None for what is missing, cannot be read or is not a regular file. Never raises."""
        try:
            with self.parent(path) as (directory, _):
                descriptor = self.open_regular(directory, path, os.O_RDONLY)
            try:
                status = os.fstat(descriptor)
                if start is None:
                    start = max(0, status.st_size - most)
                elif start > status.st_size:
                    start = 0
                content = os.pread(descriptor, most, start)
                return Piece(content, start + len(content), status.st_ino, status.st_mtime)
            finally:
                os.close(descriptor)
        except OSError:
            return None

    def whole(self, path: str, most: int = MOST_WHOLE) -> bytes:
        """The content of a regular file of at most `most` bytes. Raises OSError; NotPlain for anything else."""
        with self.opened(path) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise NotPlain(f"{self.root}/{path} has more than {most:,} bytes; find out what writes it")
        return content

    def opened(self, path: str) -> BinaryIO:
        """A regular file for reading, without a bound: the caller sets one."""
        with self.parent(path) as (directory, _):
            return os.fdopen(self.open_regular(directory, path, os.O_RDONLY), "rb")

    def status(self, path: str = "") -> os.stat_result | None:
        """The status of the entry itself (links are not followed); None when it is missing or unreachable."""
        try:
            with self.parent(path) as (directory, name):
                return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return None

    def is_directory(self, path: str) -> bool:
        status = self.status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def leads_to_program(self, path: str) -> bool:
        """Whether a file that may be run is there, or at the end of a link: the one thing that is followed."""
        try:
            with self.parent(path) as (directory, name):
                mode = os.stat(name, dir_fd=directory).st_mode
        except OSError:
            return False
        return stat.S_ISREG(mode) and bool(mode & 0o111)

    def names(self, path: str, most: int) -> list[str]:
        """Up to `most` of the names in a directory."""
        with self.directory(path) as directory, os.scandir(directory) as entries:
            return [entry.name for entry in islice(entries, most)]

    def walk(
        self,
        path: str = "",
        *,
        depth: int,
        most: int,
        seconds: float = math.inf,
        enter: Callable[[Entry], bool] = lambda _: True,
    ) -> Iterator[Entry | Unseen]:
        """All that lies below `path` on the same device, down to `depth` directories; never raises. Whatever is left
        out, and `enter` did not ask for that, is given as Unseen."""
        waiting, left = [(self.relative(path), depth)], most
        until = time.monotonic() + seconds
        device: int | None = None
        while waiting:
            where, deeper = waiting.pop()
            try:
                with self.directory(where) as directory:
                    # Not within `acting` from here on: whatever the caller does between two entries it does as itself.
                    descriptor = os.dup(directory)
            except OSError as error:
                # What goes away while it is walked is no problem; what was asked for is.
                if where == path or not isinstance(error, FileNotFoundError):
                    yield Unseen(where, error.strerror or str(error))
                continue
            try:
                device = device or os.fstat(descriptor).st_dev
                with os.scandir(descriptor) as scan:
                    while batch := self._batch(where, scan):
                        for entry in batch:
                            left -= 1
                            if left < 0 or time.monotonic() > until:
                                looked = min(most, most - left - 1)
                                yield Unseen(
                                    path,
                                    f"holds more than is looked through at once ({looked:,} entries were)",
                                    at_bound=True,
                                )
                                return
                            yield entry
                            if not stat.S_ISDIR(entry.status.st_mode) or not enter(entry):
                                continue
                            if entry.status.st_dev == device and deeper:
                                waiting.append((entry.path, deeper - 1))
                            elif entry.status.st_dev == device:
                                yield Unseen(entry.path, "lies too deep to be looked into", at_bound=True)
            except OSError as error:
                yield Unseen(where, error.strerror or str(error))
            finally:
                os.close(descriptor)

    def _batch(self, where: str, scan: Iterator[os.DirEntry[str]]) -> list[Entry]:
        found: list[Entry] = []
        with self.identity.acting():
            while len(found) < _BATCH and (entry := next(scan, None)):
                with contextlib.suppress(FileNotFoundError):
                    path = f"{where}/{entry.name}" if where else entry.name
                    found.append(Entry(path, entry.stat(follow_symlinks=False)))
        return found

    # Changing

    def open_to_append(self, path: str) -> tuple[int, int]:
        """A descriptor of the regular file, made if it is missing, and the file's size."""
        with self.parent(path) as (directory, _):
            descriptor = self.open_regular(directory, path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.set_blocking(descriptor, True)
        return descriptor, os.fstat(descriptor).st_size

    def write(self, path: str, content: bytes, mode: int = 0o644, durable: bool = True) -> None:
        """Replace the file in one step, on the disk when this returns if `durable`. A link is replaced itself."""
        with self.parent(path) as (directory, name):
            self._replace(directory, name, content, mode, durable)

    def make_directory(self, path: str, mode: int = 0o777, new: bool = False) -> str:
        """Create a directory for its owner; set aside anything else in its place, and return the new path of that or
        "". With `new`, raises FileExistsError when the directory exists already."""
        aside = self.set_aside(path, unless=stat.S_ISDIR)
        with self.parent(path) as (directory, name):
            try:
                os.mkdir(name, mode, dir_fd=directory)
            except FileExistsError:
                if new:
                    raise
                self.open_up(directory, name)
        return aside

    def set_aside(self, path: str, unless: Callable[[int], bool]) -> str:
        """Rename what is there when its mode is not of that kind; gives its new path, or "". Never deletes: it may be
        somebody's work. A link is looked at itself."""
        with self.parent(path) as (directory, name):
            aside = self._set_aside(directory, name, unless)
        return f"{os.path.dirname(f'{self.root}/{self.relative(path)}')}/{aside}" if aside else ""

    def rename(self, path: str, new: str) -> None:
        """To another name in the same directory."""
        with self.parent(path) as (directory, name):
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=directory)

    def unlink(self, path: str) -> bool:
        """Remove a file, or a link itself; whether nothing is there any more. Never raises."""
        return self._is_gone(path, os.unlink)

    def remove_empty(self, path: str) -> bool:
        """Remove a directory with nothing in it; whether nothing is there any more. Never raises."""
        return self._is_gone(path, os.rmdir)

    def _is_gone(self, path: str, remove: Callable[..., None]) -> bool:
        try:
            with self.parent(path) as (directory, name):
                remove(name, dir_fd=directory)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def remove(self, path: str, seconds: float = _RM_SECONDS) -> None:
        """Whatever is there, by rm(1): a tree may be of any size and depth, and hard to remove. What is missing is
        fine; what takes longer than `seconds` is left in part."""
        until = time.monotonic() + seconds
        try:
            with self.parent(path) as (directory, name):
                rm = ("rm", "-rf", "--one-file-system", "--", name)
                if not self._run(rm, directory, until):
                    return
                self._run(("chmod", "-R", "u+rwX", "--", name), directory, until)
                problem = self._run(rm, directory, until)
        except FileNotFoundError:
            return
        if problem:
            raise OSError(f"{self.root}/{path} cannot be removed: {problem}")

    def cut(self, path: str, keep_bytes: int = MOST_KEPT) -> int:
        """Cut a log to nothing in place, so that its writers go on; its end is kept in `.1`. Gives the bytes it had.

        What is written between the two is lost. When it raises, either nothing was changed, or the log is cut and only
        its end could not be kept."""
        with self.parent(path) as (directory, name):
            log = self.open_regular(directory, path, os.O_RDWR)
            try:
                size = os.fstat(log).st_size
                kept = min(keep_bytes, MOST_KEPT, size)
                end = os.pread(log, kept, size - kept)
                self._set_aside(directory, f"{name}{OLDER}", lambda mode: not stat.S_ISDIR(mode))
                try:
                    self._replace(directory, f"{name}{OLDER}", end)
                except OSError as error:
                    os.ftruncate(log, 0)
                    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                        raise
                    self._replace(directory, f"{name}{OLDER}", end)
                os.ftruncate(log, 0)
                return size
            finally:
                os.close(log)

    # How

    def _set_aside(self, directory: int, name: str, unless: Callable[[int], bool]) -> str:
        try:
            if unless(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                return ""
            aside = f"{name}.aside-{time.time_ns()}"
            os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
        except FileNotFoundError:
            return ""
        return aside

    def _replace(self, directory: int, name: str, content: bytes, mode: int = 0o644, durable: bool = False) -> None:
        temporary = f".{name}.{os.getpid()}.{get_ident()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE
        with contextlib.suppress(FileNotFoundError):  # left by a killed process that had our numbers
            os.unlink(temporary, dir_fd=directory)
        try:
            with os.fdopen(os.open(temporary, flags, mode, dir_fd=directory), "wb") as file:
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        if durable:
            os.fsync(directory)

    def _run(self, words: tuple[str, ...], directory: int, until: float) -> str:
        """Why a program with the identity's rights failed; empty when it did not."""
        import subprocess  # a runner that only writes a file need not pay for it

        try:
            ended = subprocess.run(
                words,
                cwd=f"/proc/self/fd/{directory}",  # no link in the path can lead it elsewhere
                env={"PATH": "/usr/bin:/bin"},  # the cell may read it
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=max(0.1, until - time.monotonic()),
                check=False,
                **self.identity.for_child,
            )
        except subprocess.TimeoutExpired:
            return "it takes too long; the rest goes the next time"
        problem = ended.stderr.decode(errors="replace")[:200].strip() or f"{words[0]} ended with {ended.returncode}"
        return problem if ended.returncode else ""


def opened_file(path: str) -> BinaryIO:
    """`Below.opened` for one file in a directory that is ours."""
    return Below(os.path.dirname(path)).opened(os.path.basename(path))


def whole_file(path: str, most: int = MOST_WHOLE) -> bytes:
    """`Below.whole` for one file in a directory that is ours."""
    return Below(os.path.dirname(path)).whole(os.path.basename(path), most)


def takes(status: os.stat_result) -> int:
    """Bytes that a file takes on the disk, at most what it says."""
    return min(status.st_size, status.st_blocks * 512)
