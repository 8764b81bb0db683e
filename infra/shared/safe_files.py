"""The cell's files, touched by the keep and the host: `Below` is the only way to them.

Every method acts as the given identity, follows no link on any step below the root, never waits for a pipe
or a device, and reads at most what it is told. So a file that the agent swaps for a link to the keep's own, before or
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

from infra.shared.identity import OURS, Identity

MOST_WHOLE = 16 << 20
_BATCH = 256
_RM_SECONDS = 120.0
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NotPlain(OSError, ValueError):
    """There is something else than a regular file, or one that is larger than it may be.

    A ValueError too, as content that makes no sense is: most readers treat both alike."""


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


class Below:
    """What lies below `root`, which itself may be reached by links. Paths are relative to it, or begin with it.

    All methods raise OSError unless they say otherwise."""

    def __init__(self, root: str, identity: Identity = OURS) -> None:
        self.root = root.rstrip("/")
        self.identity = identity

    # The way there

    def _parts(self, path: str) -> list[str]:
        if path.startswith("/"):
            if not f"{path}/".startswith(f"{self.root}/"):
                raise OSError(f"{path} does not lie in {self.root}")
            path = path[len(self.root) :]
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise OSError(f"{path} leads out of its directory")
        return parts

    @contextlib.contextmanager
    def _directory(self, path: str) -> Iterator[int]:
        """A descriptor of a directory; within it the thread's access to files is the identity's."""
        parts = self._parts(path)
        with self.identity.acting():
            descriptor = os.open(self.root or "/", _DIRECTORY)
            try:
                for part in parts:
                    inner = os.open(part, _DIRECTORY | _SAFE, dir_fd=descriptor)
                    os.close(descriptor)
                    descriptor = inner
                yield descriptor
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the directory that holds `path`, and the name in it. Within it the thread's access to files
        is the identity's."""
        *above, name = self._parts(path) or ["."]
        with self._directory("/".join(above)) as directory:
            yield directory, name

    def _open_regular(self, path: str, flags: int) -> int:
        not_plain = NotPlain(
            f"{self.root}/{path} is not a regular file, which minifram never puts there; find out what did, and remove "
            "it"
        )
        with self.parent(path) as (directory, name):
            try:
                descriptor = os.open(name, flags | _SAFE, 0o644, dir_fd=directory)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a pipe or socket, a directory
                    raise not_plain from None
                raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise not_plain
        return descriptor

    # Reading

    def tail(self, path: str, most: int) -> bytes:
        """The last `most` bytes; nothing for what is missing, cannot be read or is not a regular file. Never raises."""
        with contextlib.suppress(OSError), self.opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), most, max(0, size - most))
        return b""

    def whole(self, path: str, most: int = MOST_WHOLE) -> bytes:
        """The content of a regular file of at most `most` bytes. Raises OSError; NotPlain for anything else."""
        with self.opened(path) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise NotPlain(f"{self.root}/{path} has more than {most:,} bytes; find out what writes it")
        return content

    def opened(self, path: str) -> BinaryIO:
        """A regular file for reading, without a bound: the caller sets one."""
        return os.fdopen(self._open_regular(path, os.O_RDONLY), "rb")

    def status(self, path: str = "") -> os.stat_result | None:
        """The status of the entry itself (links are not followed); None when it is missing or unreachable."""
        with contextlib.suppress(OSError), self.parent(path) as (directory, name):
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        return None

    def is_directory(self, path: str) -> bool:
        status = self.status(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def names(self, path: str, most: int) -> list[str]:
        """Up to `most` of the names in a directory."""
        with self._directory(path) as directory, os.scandir(directory) as entries:
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
        asked = "/".join(self._parts(path))
        waiting, left = [(asked, depth)], most
        until = time.monotonic() + seconds
        device: int | None = None
        while waiting:
            where, deeper = waiting.pop()
            try:
                with self._directory(where) as directory:
                    # Not within `acting` from here on: whatever the caller does between two entries it does as itself.
                    descriptor = os.dup(directory)
            except OSError as error:
                # What goes away while it is walked is no problem; what was asked for is.
                if where == asked or not isinstance(error, FileNotFoundError):
                    yield Unseen(where, error.strerror or str(error))
                continue
            try:
                device = device or os.fstat(descriptor).st_dev
                with os.scandir(descriptor) as scan:
                    while batch := self._batch(where, scan):
                        for entry in batch:
                            left -= 1
                            if left < 0 or time.monotonic() > until:
                                why = f"holds more than is looked through at once ({most:,} entries, {seconds:g} s)"
                                yield Unseen(asked, why, at_bound=True)
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
        descriptor = self._open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.set_blocking(descriptor, True)
        return descriptor, os.fstat(descriptor).st_size

    def write(self, path: str, content: bytes, mode: int = 0o644, durable: bool = True) -> None:
        """Replace the file in one step, on the disk when this returns if `durable`. A link is replaced itself."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
        with self.parent(path) as (directory, name):
            temporary = f".{name}.{os.getpid()}.{get_ident()}.tmp"
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

    def open_up(self) -> None:
        """Give the owner of the root its rights there: the agent can take them from itself, and a version after it
        needs them."""
        with self.identity.acting():
            _open_up(self.root)

    def make_directory(self, path: str, mode: int = 0o777) -> str:
        """Create a directory, or give its owner all rights in the one that is there. Anything else in its place is set
        aside; gives the new path of that, or ""."""
        aside = self.set_aside(path, unless=stat.S_ISDIR)
        with self.parent(path) as (directory, name):
            try:
                os.mkdir(name, mode, dir_fd=directory)
            except FileExistsError:
                there = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=directory)
                try:
                    _open_up(f"/proc/self/fd/{there}")
                finally:
                    os.close(there)
        return aside

    def set_aside(self, path: str, unless: Callable[[int], bool]) -> str:
        """Rename what is there when its mode is not of that kind; gives its new path, or "". Never deletes: it may be
        somebody's work. A link is looked at itself."""
        aside = f"{'/'.join(self._parts(path))}.aside-{time.time_ns()}"
        with contextlib.suppress(FileNotFoundError), self.parent(path) as (directory, name):
            if not unless(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                os.rename(name, os.path.basename(aside), src_dir_fd=directory, dst_dir_fd=directory)
                return f"{self.root}/{aside}"
        return ""

    def rename(self, path: str, new: str) -> None:
        """To another name in the same directory."""
        with self.parent(path) as (directory, name):
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=directory)

    def unlink(self, path: str) -> bool:
        """Remove a file, or a link itself; whether nothing is there any more. Never raises."""
        try:
            with self.parent(path) as (directory, name):
                os.unlink(name, dir_fd=directory)
        except OSError as error:
            return isinstance(error, FileNotFoundError)
        return True

    def remove(self, path: str, seconds: float = _RM_SECONDS) -> None:
        """Whatever is there, by rm(1): a tree may be of any size and depth, and hard to remove. What is missing is
        fine; what takes longer than `seconds` is left in part."""
        import subprocess  # a runner that only writes a file need not pay for it

        until = time.monotonic() + seconds
        with contextlib.suppress(FileNotFoundError), self.parent(path) as (directory, name):
            rm, ended = ("rm", "-rf", "--one-file-system", "--", name), None
            for words in (rm, ("chmod", "-R", "u+rwX", "--", name), rm):
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
                    raise OSError(f"{self.root}/{path} takes too long to remove; the rest goes the next time") from None
                if words is rm and not ended.returncode:
                    return
            why = ended.stderr.decode(errors="replace")[:200].strip() if ended else ""
            raise OSError(f"{self.root}/{path} cannot be removed: {why}")


def _open_up(path: str) -> None:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(path, mode | stat.S_IRWXU)


def opened_file(path: str) -> BinaryIO:
    """`Below.opened` for one file in a directory that is ours."""
    return Below(os.path.dirname(path)).opened(os.path.basename(path))


def whole_file(path: str, most: int = MOST_WHOLE) -> bytes:
    """`Below.whole` for one file in a directory that is ours."""
    return Below(os.path.dirname(path)).whole(os.path.basename(path), most)
