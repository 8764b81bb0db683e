"""What happens in the agent's home, seen from the host: changes directly in it and in its tools, and reads of tools.

The home is the agent's: it may put anything anywhere, at any time. So directories are opened one below the other, never
through a link; files are opened for their digest only when they are plain, and read up to a bound."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass, field

import inotify
from inotify import Event, Inotify
from tool_files import Identity, ToolFile

HOME, TOOLS = "/home/agent", "/home/agent/tools"
MOST_DIRECTORIES, MOST_FILES, MOST_DEPTH = 64, 1000, 6
MOST_CHANGED, MOST_TOLD = 10_000, 20
MOST_BYTES, MOST_BYTES_A_STEP = 4 << 20, 64 << 20
_PATH_ONLY = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
_CHANGES = inotify.MODIFY | inotify.CREATE | inotify.DELETE | inotify.MOVED_FROM | inotify.MOVED_TO
_CAME, _WENT = inotify.CREATE | inotify.MOVED_TO, inotify.DELETE | inotify.MOVED_FROM
_QUIET = _CHANGES | inotify.CLOSE_WRITE
_TOOLS = _QUIET | inotify.ACCESS


@dataclass(frozen=True)
class _Directory:
    """`descriptor` is of O_PATH: to open it is no event, and it stays this directory, however it is renamed."""

    path: str
    descriptor: int


@dataclass
class Happened:
    """Since the last step."""

    changed: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    """Directories that had files when their watch began: what was read in them before is not known."""
    unwatched: dict[str, str] = field(default_factory=dict)
    overflow: bool = False

    def change(self, path: str) -> None:
        if len(self.changed) < MOST_CHANGED:
            self.changed.add(path)
        else:
            self.overflow |= path not in self.changed

    def leave_out(self, path: str, why: str) -> None:
        if len(self.unwatched) < MOST_TOLD:
            self.unwatched[path] = why


class HomeWatch:
    """Raises OSError at the start when the home cannot be watched. Not for two threads at a time."""

    def __init__(self, home: str) -> None:
        self._inotify = Inotify()
        self._directories: dict[int, _Directory] = {}
        self._tools: dict[str, ToolFile] = {}
        self._happened = Happened()
        self._mask = _QUIET
        try:
            self._root = _Directory(HOME, os.open(os.path.realpath(home), _PATH_ONLY))
            try:
                self._root_watch = self._inotify.watch(_by_descriptor(self._root.descriptor), _CHANGES)
            except BaseException:
                os.close(self._root.descriptor)
                raise
        except BaseException:
            self._inotify.close()
            raise
        self._add(self._root, "tools")
        self.settle()
        self._happened = Happened()

    @property
    def descriptor(self) -> int:
        """Readable when there is something to drain."""
        return self._inotify.descriptor

    def drain(self) -> None:
        """Take in all that has come; a directory that came is watched from now on."""
        for event in self._inotify.events():
            self._take(event)

    def settle(self) -> tuple[dict[str, str | None], Happened]:
        """The end of a step: the tools of which bytes were read, each with the digest of what was read (None when it
        cannot be told), and what else happened.

        Our own reads must not be taken for the agent's. So while we read, the watches do not ask for reads: the kernel
        changes a mask between two events, and goes on telling of changes. What a program in the background reads in
        those milliseconds is not seen, which can only make a figure smaller. A file that changes meanwhile gets no
        digest now."""
        self.drain()
        self._ask(_QUIET)
        self.drain()
        read: dict[str, str | None] = {}
        left = MOST_BYTES_A_STEP
        for path in sorted(self._tools):
            tool = self._tools.get(path)
            if tool is None:  # events were dropped meanwhile, and nothing is known any more
                continue
            changes, identity = tool.changes, self._identity(path)
            sha256: str | None = tool.sha256
            if changes or identity != tool.identity:
                sha256, identity, size = self._digest(path, min(MOST_BYTES, left))
                left -= size
                self.drain()
                if tool.changes != changes:
                    sha256 = identity = None
            if tool.was_read:
                read[path] = tool.content_read(sha256, identity)
            if tool.sha256 not in (None, sha256):
                self._happened.change(path)  # as one sees also when it was written through memory
            if identity is None:
                self._tools.pop(path, None)
            else:
                tool.settle(sha256, identity)
        self._ask(_TOOLS)
        happened, self._happened = self._happened, Happened()
        return read, happened

    def close(self) -> None:
        for directory in (self._root, *self._directories.values()):
            os.close(directory.descriptor)
        self._directories.clear()
        self._inotify.close()

    def _ask(self, mask: int) -> None:
        self._mask = mask
        for directory in self._directories.values():
            with contextlib.suppress(OSError):  # it is gone: its last event says so
                self._inotify.watch(_by_descriptor(directory.descriptor), mask)

    def _take(self, event: Event) -> None:
        if event.mask & inotify.OVERFLOW:
            self._begin_again()
        elif event.watch == self._root_watch:
            self._take_in(self._root, event)
        elif event.mask & inotify.IGNORED:
            self._drop(event.watch)
        elif event.watch in self._directories:
            self._take_in(self._directories[event.watch], event)

    def _take_in(self, directory: _Directory, event: Event) -> None:
        if not event.name:
            return
        path = f"{directory.path}/{event.name}"
        if event.mask & _CHANGES:
            self._happened.change(path)
        if event.mask & inotify.IS_DIRECTORY:
            if event.mask & _WENT:
                self._forget_below(path)
            if event.mask & _CAME and (directory is not self._root or path == TOOLS):
                self._add(directory, event.name)
        elif path == TOOLS and event.mask & _CAME:
            self._happened.leave_out(path, "Not a directory")  # a link, most likely
        elif directory is not self._root and (tool := self._tool(path)):
            if event.mask & inotify.ACCESS:
                tool.read()
            else:
                tool.change()

    def _tool(self, path: str) -> ToolFile | None:
        if path not in self._tools and len(self._tools) >= MOST_FILES:
            self._happened.leave_out(path, f"more than {MOST_FILES} files")
            return None
        return self._tools.setdefault(path, ToolFile())

    def _add(self, above: _Directory, name: str) -> None:
        """Watch a directory and those below it; what is there already counts as having changed."""
        path = f"{above.path}/{name}"
        if len(self._directories) >= MOST_DIRECTORIES or path.count("/") > TOOLS.count("/") + MOST_DEPTH:
            why = f"more than {MOST_DIRECTORIES} directories, or {MOST_DEPTH} in each other"
            self._happened.leave_out(path, why)
            return
        try:
            descriptor = os.open(name, _PATH_ONLY, dir_fd=above.descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            self._happened.leave_out(path, error.strerror or "")  # also of a link
            return
        try:
            number = self._inotify.watch(_by_descriptor(descriptor), self._mask)
            self._drop(number)
            directory = self._directories[number] = _Directory(path, descriptor)
        except OSError as error:
            os.close(descriptor)
            self._happened.leave_out(path, error.strerror or "")
            return
        for entry, is_directory in _entries(directory):
            self._happened.late.add(path)
            self._happened.change(f"{path}/{entry}")
            if is_directory:
                self._add(directory, entry)
            elif tool := self._tool(f"{path}/{entry}"):
                tool.change()

    def _drop(self, number: int) -> None:
        if directory := self._directories.pop(number, None):
            os.close(directory.descriptor)

    def _forget_below(self, path: str) -> None:
        """A directory has another name now, or none: what it holds is not at this path."""
        for number, directory in list(self._directories.items()):
            if directory.path == path or directory.path.startswith(f"{path}/"):
                self._inotify.forget(number)
                self._drop(number)
        for tool in [tool for tool in self._tools if tool.startswith(f"{path}/")]:
            self._tools[tool].change()

    def _begin_again(self) -> None:
        """The kernel has dropped events: nothing that was known of the tools holds."""
        self._happened.overflow = True
        self._forget_below(TOOLS)
        self._tools.clear()
        self._add(self._root, "tools")

    def _identity(self, path: str) -> Identity | None:
        """Of a plain file that can be reached without links; else None."""
        directory = self._directory_of(path)
        if directory is None:
            return None
        try:
            status = os.stat(path.rsplit("/", 1)[1], dir_fd=directory.descriptor, follow_symlinks=False)
        except OSError:
            return None
        return _identity(status)

    def _digest(self, path: str, most: int) -> tuple[str | None, Identity | None, int]:
        """SHA-256, identity and bytes of a plain file of at most so many bytes; the digest is None when it cannot be
        had, the identity when there is no such file."""
        directory, known = self._directory_of(path), self._identity(path)
        if directory is None or known is None:
            return None, None, 0
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(path.rsplit("/", 1)[1], flags, dir_fd=directory.descriptor)
        except OSError:
            return None, known, 0  # the agent may keep its file to itself
        with open(descriptor, "rb") as file:
            identity = _identity(os.fstat(file.fileno()))
            if identity is None or identity[2] > most:
                return None, known, 0
            content = file.read(most)
            if _identity(os.fstat(file.fileno())) != identity:
                return None, known, len(content)
        return hashlib.sha256(content).hexdigest(), identity, len(content)

    def _directory_of(self, path: str) -> _Directory | None:
        wanted = path.rsplit("/", 1)[0]
        return next((one for one in self._directories.values() if one.path == wanted), None)


def _entries(directory: _Directory) -> list[tuple[str, bool]]:
    """Names, and whether each is a directory; bounded."""
    try:
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory.descriptor)
    except OSError:
        return []
    try:
        with os.scandir(descriptor) as entries:
            found = []
            for entry in entries:
                found.append((entry.name, entry.is_dir(follow_symlinks=False)))
                if len(found) > MOST_FILES:
                    break
            return found
    except OSError:
        return []
    finally:
        os.close(descriptor)


def _identity(status: os.stat_result) -> Identity | None:
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _by_descriptor(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"
