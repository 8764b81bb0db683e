"""Which files the file tools reach, and how they touch them: all of the agent's, or those of the workspace alone.

The workspace is for operations that arrive as text. In it no link leads a path out, not even one that is put there
between the look and the act: the path is resolved first, and then opened step by step through no link."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Protocol

from infra.cell.loop.registry import ToolError
from infra.shared.branches import problem_with_branch
from infra.shared.safe_files import Below, Entry
from infra.shared.safe_steps import NotPlain

OUTSIDE = ("/agent", "/tmp")  # noqa: S108 - the agent's own, in its container
CLONE = "minifram"
SEARCHED, SEARCH_DEPTH, SEARCH_SECONDS = 5000, 8, 0.5
"""Entries, directories and time for finding a file by its name alone."""
_PASSED_BY = {"logs", "node_modules", "__pycache__"}


class Reach(Protocol):
    """Paths are from the checkout, or absolute. All methods raise ToolError and OSError."""

    def key(self, path: str) -> str:
        """One name of the file, whatever path led to it."""
        ...

    def opened(self, path: str) -> BinaryIO:
        """A regular file, for reading."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Replace the file in one step, keeping its mode; missing directories are made."""
        ...

    def remove(self, path: str) -> None: ...

    def exists(self, path: str) -> bool:
        """Something is there; raises ToolError when that is no regular file."""
        ...

    def deeper(self, path: str) -> Sequence[str]:
        """Where files of this name lie, when the path is a name alone and nothing is there."""
        ...


class Everywhere:
    """Whatever the agent's own rights reach."""

    def __init__(self, checkout: str) -> None:
        self._checkout = checkout

    def key(self, path: str) -> str:
        return os.path.realpath(self._whole(path))

    def opened(self, path: str) -> BinaryIO:
        path = self._whole(path)
        try:
            refuse_unless_regular(path, os.stat(path))  # before opening it: opening a device may already do something
        except FileNotFoundError:
            raise ToolError(f"{path} does not exist; ls shows what does") from None
        # What was a file a moment ago may be a FIFO now, and opening one would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        return os.fdopen(descriptor, "rb")

    def write(self, path: str, content: bytes) -> None:
        path = os.path.realpath(self._whole(path))  # through a link, so that the link stays one
        directory = os.path.dirname(path)
        mode = None
        if os.path.lexists(path):
            status = os.stat(path)
            refuse_unless_regular(path, status)
            mode = stat.S_IMODE(status.st_mode)
        os.makedirs(directory, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".write-", dir=directory)
        try:
            with open(descriptor, "wb") as file:
                os.fchmod(descriptor, _new_file_mode() if mode is None else mode)
                file.write(content)
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def remove(self, path: str) -> None:
        path = self._whole(path)
        if not os.path.islink(path):
            try:
                refuse_unless_regular(path, os.stat(path))
            except FileNotFoundError:
                raise ToolError(f"{path} does not exist; ls shows what does") from None
        os.unlink(path)

    def exists(self, path: str) -> bool:
        path = self._whole(path)
        if not os.path.exists(path):
            return os.path.lexists(path)
        refuse_unless_regular(path, os.stat(path))
        return True

    def deeper(self, path: str) -> Sequence[str]:
        return _deeper(self._checkout, path) if _is_name_alone(path) and not self.exists(path) else ()

    def _whole(self, path: str) -> str:
        refuse_unless_path(path)
        return os.path.join(self._checkout, path)


class Workspace:
    """The clone that runs, the clones of all branches, and the places of the agent outside of both."""

    def __init__(
        self,
        checkout: str,
        bot: str = "",
        outside: Sequence[str] = OUTSIDE,
        resolve: Callable[[str], str] = os.path.realpath,
    ) -> None:
        """`bot` holds the clones of branches; empty: there are none. `resolve` gives a path without links."""
        self._resolve = resolve
        self._checkout = os.path.abspath(checkout)
        self._bots = _both(bot) if bot else ()
        self._roots = tuple(root for place in (checkout, *outside) for root in _both(place))
        self._named = ", ".join((self._checkout, *((f"{bot}/BRANCH/{CLONE}",) if bot else ()), *outside))

    def key(self, path: str) -> str:
        root, relative = self._resolved(path)
        return f"{root}/{relative}"

    def opened(self, path: str) -> BinaryIO:
        if not self.exists(path):
            raise ToolError(f"{path} does not exist", "List the directory with a shell operation")
        root, relative = self._resolved(path)
        with _in_words(path):
            return Below(root).opened(relative)

    def write(self, path: str, content: bytes) -> None:
        mode = self._mode(path)
        root, relative = self._resolved(path)
        below = Below(root)
        with _in_words(path):
            parts = relative.split("/")
            for n in range(1, len(parts)):
                with below.parent("/".join(parts[:n])) as (directory, name), contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=directory)
            below.write(relative, content, _new_file_mode() if mode is None else mode, durable=False)

    def remove(self, path: str) -> None:
        if not self.exists(path):
            raise ToolError(f"{path} does not exist", "List the directory with a shell operation")
        root, relative = self._resolved(path)
        with _in_words(path), Below(root).parent(relative) as (directory, name):
            os.unlink(name, dir_fd=directory)

    def exists(self, path: str) -> bool:
        return self._mode(path) is not None

    def deeper(self, path: str) -> Sequence[str]:
        return _deeper(self._checkout, path) if _is_name_alone(path) and not self.exists(path) else ()

    def _mode(self, path: str) -> int | None:
        """None when nothing is there. Raises ToolError for what is no regular file."""
        root, relative = self._resolved(path)
        with _in_words(path):
            try:
                with Below(root).parent(relative) as (directory, name):
                    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                return None
        refuse_unless_regular(path, status)
        return stat.S_IMODE(status.st_mode)

    def _resolved(self, path: str) -> tuple[str, str]:
        """A directory that the agent cannot replace, and the path from there, without links."""
        refuse_unless_path(path)
        if path.startswith("~"):
            raise ToolError(f"{path!r} begins with '~', which only a shell knows", "Give the path itself")
        seeming = os.path.normpath(os.path.join(self._checkout, path))
        if self._place(seeming) is None:
            raise ToolError(f"{path!r} lies outside of the workspace", f"The workspace is {self._named}")
        # Not of `seeming`: behind a link, `..` leads to where the link does, and that is where the gate looked.
        found = self._place(self._resolve(os.path.join(self._checkout, path)))
        if found is None:
            raise ToolError(f"{path!r} leads out of the workspace through a link", f"The workspace is {self._named}")
        if not found[1]:
            raise ToolError(f"{path!r} is a directory; expected a file", "List it with a shell operation")
        return found

    def _place(self, path: str) -> tuple[str, str] | None:
        for bot in self._bots:
            inside = path.removeprefix(f"{bot}/")
            branch, clone, file = inside.partition(f"/{CLONE}/")
            if inside != path and clone and file and problem_with_branch(branch) is None:
                return bot, inside
        for root in self._roots:
            if path == root or path.startswith(f"{root}/"):
                return root, path[len(root) + 1 :]
        return None


@contextlib.contextmanager
def _in_words(path: str) -> Iterator[None]:
    """What the way to a file can meet that changed after it was resolved, or is no directory."""
    try:
        yield
    except NotPlain:
        raise ToolError(f"{path} is no regular file; expected one") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ToolError(f"{path} was changed into a link meanwhile", "Look what does that") from None
        if error.errno == errno.ENOTDIR:
            raise ToolError(f"a directory on the way to {path} is a file", "Look with a shell operation") from None
        raise


def refuse_unless_path(path: str) -> None:
    if not path or "\0" in path:
        raise ToolError(f"path {path!r} names no file; give one such as 'src/notes.md'")


def refuse_unless_regular(path: str, status: os.stat_result) -> None:
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise ToolError(f"{path} is a directory; ls lists it")
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
        raise ToolError(
            f"{path} is {kinds.get(stat.S_IFMT(mode), 'no regular file')}; only regular files are read and written"
        )


def _both(place: str) -> tuple[str, ...]:
    """As it is called, and where that leads."""
    return tuple(dict.fromkeys((os.path.abspath(place), os.path.realpath(place))))


def _is_name_alone(path: str) -> bool:
    return "/" not in path


def _deeper(checkout: str, name: str) -> tuple[str, ...]:
    def enter(entry: Entry) -> bool:
        last = entry.path.rpartition("/")[2]
        return not last.startswith(".") and last not in _PASSED_BY

    walk = Below(checkout).walk(depth=SEARCH_DEPTH, most=SEARCHED, seconds=SEARCH_SECONDS, enter=enter)
    found = (each.path for each in walk if isinstance(each, Entry) and stat.S_ISREG(each.status.st_mode))
    return tuple(sorted(path for path in found if path.endswith(f"/{name}")))


def _new_file_mode() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
