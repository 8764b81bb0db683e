"""Disks of a test's own: small ones that can be filled, and one whose power can be cut. They need root and, for the
second, a loop device."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.keep.supervision.agents import within

_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
"""ioctl of ext4 (also of xfs and f2fs): from this moment on nothing more reaches the disk, not even the journal."""


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A tmpfs at `path`; skips the test where none may be mounted."""
    path.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    _or_skip(subprocess.run(words, capture_output=True, text=True, check=False))
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def read_only(path: str) -> Iterator[None]:
    """What lies at `path` cannot be written for a while; descriptors that are open already go on."""
    _or_skip(subprocess.run(["mount", "--bind", path, path], capture_output=True, text=True, check=False))
    try:
        # The kernel refuses it (EBUSY) in moments when somebody writes there.
        words = ["mount", "-o", "remount,bind,ro", path]
        within(30.0, lambda: subprocess.run(words, check=False).returncode == 0, "a mount that nobody writes to")
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(path: Path) -> Path:
    """A file in `path` that takes all the room there is."""
    filler = path / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    room = os.statvfs(path)
    assert room.f_bavail * room.f_frsize == 0
    return filler


class Ext4:
    """An ext4 in a file, on a loop device: what a power cut leaves on it is what the kernel had given to the disk."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "disk"
        self._image = directory / "image"
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(160 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self._image)], check=True)

    def mount(self) -> None:
        """The kernel replays the journal."""
        words = ["mount", "-o", "loop", str(self._image), str(self.path)]
        _or_skip(subprocess.run(words, capture_output=True, text=True, check=False))

    def cut_power(self) -> None:
        """What was not on the disk is gone, and so is every process that had anything to do with it."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)
        self.unmount()
        # Another mount namespace may still have the dead file system; what is mounted next is a disk of its own.
        left = self._image.with_suffix(".left")
        subprocess.run(["cp", "--sparse=always", str(self._image), str(left)], check=True)
        left.replace(self._image)

    def unmount(self) -> None:
        """Nobody goes on with what the kernel still has of it."""
        if os.path.ismount(self.path):
            within(30.0, self._is_left, "its users ended")
            subprocess.run(["umount", "--lazy", str(self.path)], check=True)

    def _is_left(self) -> bool:
        users = self._users()
        for process in users:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return not users

    def _users(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if process.pid != os.getpid() and self._is_used(process)]

    def _is_used(self, process: psutil.Process) -> bool:
        try:
            open_ = (process.cwd(), *(file.path for file in process.open_files()))
        except psutil.Error:  # it is gone by now
            return False
        return any(f"{path}/".startswith(f"{self.path}/") for path in open_)


def _or_skip(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode and (os.geteuid() != 0 or not shutil.which("mount") or "loop device" in done.stderr):
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
