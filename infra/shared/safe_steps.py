"""The way to a file of the cell's, step by step: as the given identity, through no link below the root, without waiting
for a pipe or a device. `safe_files.Below` has the verbs."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from infra.shared.identity import OURS, Identity

SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class NotPlain(OSError, ValueError):
    """There is something else than a regular file, or one that is larger than it may be.

    A ValueError too, as content that makes no sense is: most readers treat both alike."""


class Steps:
    """From `root`, which itself may be reached by links, to what lies below it."""

    def __init__(self, root: str, identity: Identity = OURS) -> None:
        self.root = root.rstrip("/")
        self.identity = identity

    def relative(self, path: str) -> str:
        return "/".join(self.parts(path))

    def parts(self, path: str) -> list[str]:
        if path.startswith("/"):
            if not f"{path}/".startswith(f"{self.root}/"):
                raise OSError(f"{path} does not lie in {self.root}")
            path = path[len(self.root) :]
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise OSError(f"{path} leads out of its directory")
        return parts

    @contextlib.contextmanager
    def directory(self, path: str) -> Iterator[int]:
        """A descriptor of a directory; within it the thread's access to files is the identity's."""
        parts = self.parts(path)
        with self.identity.acting():
            descriptor = os.open(self.root or "/", DIRECTORY)
            try:
                for part in parts:
                    inner = os.open(part, DIRECTORY | SAFE, dir_fd=descriptor)
                    os.close(descriptor)
                    descriptor = inner
                yield descriptor
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        *above, name = self.parts(path) or ["."]
        with self.directory("/".join(above)) as directory:
            yield directory, name

    def open_regular(self, directory: int, path: str, flags: int) -> int:
        """The regular file of the last part of `path` in that directory. Raises NotPlain for anything else."""
        not_plain = NotPlain(
            f"{self.root}/{self.relative(path)} is not a regular file, which minifram never puts there; find out what "
            "did, and remove it"
        )
        try:
            descriptor = os.open(os.path.basename(path), flags | SAFE, 0o644, dir_fd=directory)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # a link, a pipe or socket, a directory
                raise not_plain from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise not_plain
        return descriptor

    def open_up(self, directory: int | None = None, name: str = "") -> None:
        """Give the owner of a directory in that one, or of the root, its rights there: the agent can take them from
        itself, and a version after it needs them."""
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if name else 0)
        with self.identity.acting():
            there = os.open(name or self.root, flags, dir_fd=directory)
            try:
                mode = stat.S_IMODE(os.fstat(there).st_mode)
                if mode & stat.S_IRWXU != stat.S_IRWXU:
                    os.chmod(f"/proc/self/fd/{there}", mode | stat.S_IRWXU)
            finally:
                os.close(there)
