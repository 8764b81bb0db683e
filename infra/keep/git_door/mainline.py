"""Where main of the bare repository is, read so cheaply that it can be read every second: git is called only when a
file that may say so has changed. File events make the notice quick and are never relied on: they get lost, and a
machine may have none to give."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from watchdog.events import (
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from infra.keep.git_door.decide import MAIN_REF
from infra.shared.branches import MIND
from infra.shared.repository.git import Git, GitError
from infra.shared.safe_files import whole_file

MIND_REF = f"refs/heads/{MIND}"
_FILES = (MAIN_REF, MIND_REF, "packed-refs", "reftable/tables.list")
"""Where the formats of repositories keep main and the mind."""
_SHA = re.compile(r"[0-9a-f]{40}\n?")
_ASK_SECONDS = 5.0
_REF_FILE_BYTES = 4 << 20

Signature = tuple[tuple[int, int, int] | None, ...]


class Unreadable(Exception):
    """The repository does not say where main is."""


def signature(remote: str) -> Signature:
    """Something that differs when main or the mind may have moved."""
    found = list[tuple[int, int, int] | None]()
    for name in _FILES:
        try:
            status = os.stat(f"{remote}/{name}")
            found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


def read_main(remote: str) -> str | None:
    """The commit of main, None when there is no main. Raises Unreadable."""
    return _read(remote, MAIN_REF)


def read_mind(remote: str) -> str:
    """The commit of the mind, by files alone: an agent may have none, and git would be asked at each move of
    main. Empty when there is none, or it cannot be told."""
    for name, pattern in ((MIND_REF, rb"([0-9a-f]{40})\n?"), ("packed-refs", rb"(?:.*\n)?([0-9a-f]{40}) %b\n.*")):
        try:
            content = whole_file(f"{remote}/{name}", _REF_FILE_BYTES)
        except OSError:
            continue
        if match := re.fullmatch(pattern.replace(b"%b", MIND_REF.encode()), content, re.DOTALL):
            return match[1].decode()
    return ""


def _read(remote: str, ref: str) -> str | None:
    try:
        # Nonblocking, should it be a FIFO without a writer.
        descriptor = os.open(f"{remote}/{ref}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            content = os.read(descriptor, 100).decode(errors="replace")
        finally:
            os.close(descriptor)
    except FileNotFoundError:  # packed, or there is none
        try:
            return _git(remote)("rev-parse", "--verify", "--quiet", ref)
        except GitError as error:
            if error.status == 1:
                return None
            raise Unreadable(str(error)) from None
    except OSError as error:
        raise Unreadable(f"{ref} cannot be read: {error.strerror}") from None
    if not _SHA.fullmatch(content):
        raise Unreadable(f"{ref} holds {content[:60]!r}; expected a commit's sha1")
    return content.strip()


def _git(remote: str) -> Git:
    return Git(remote, env={"GIT_DIR": remote}).within(_ASK_SECONDS)


def problem_with_repository(remote: str) -> str | None:
    """Why `remote` cannot be the agent's bare repository; None when it can."""
    what_next = "'minifram init' makes one"
    if not os.path.isdir(remote):
        return f"no repository at {remote}; {what_next}"
    try:
        bare = _git(remote)("rev-parse", "--is-bare-repository")
    except GitError as error:
        return f"{remote} is not a git repository ({error}); {what_next}"
    return None if bare == "true" else f"{remote} is a repository with a work tree, expected a bare one; {what_next}"


def watch_files(remote: str, on_change: Callable[[], None]) -> Callable[[], None]:
    """Call `on_change`, from a thread, when main may have moved. Gives what ends that. Raises OSError."""
    observer = Observer()
    try:
        for directory in (remote, os.path.dirname(f"{remote}/{MAIN_REF}")):
            observer.schedule(_Handler(on_change), directory, event_filter=_EVENTS)
        observer.start()
    except OSError:
        observer.stop()
        raise

    def end() -> None:
        observer.stop()
        observer.join(1.0)

    return end


# Reading is not an event here, or every look at the files would call for the next one.
_EVENTS: list[type[FileSystemEvent]] = [FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileDeletedEvent]


class _Handler(FileSystemEventHandler):
    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change

    def on_any_event(self, event: FileSystemEvent) -> None:
        self._on_change()
