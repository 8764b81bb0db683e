"""Wakes the watcher before its next poll: file events and Unix signals become bytes in a pipe.

Polling alone is sufficient; inotify can lose events or run out of instances, and only makes the reaction faster."""

from __future__ import annotations

import contextlib
import os
import signal
import types
from collections.abc import Callable, Collection
from math import inf

import structlog
from watchdog.events import FileCreatedEvent, FileMovedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

RENEW_SECONDS = 1.0
"""A directory that is replaced without rest is watched again at most so often."""
UNAVAILABLE_SECONDS = 60.0


class Wake:
    """One pipe that becomes readable when there may be something to see."""

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.stop_asked = False
        self._log = log
        self._observer: BaseObserver | None = None
        self._watched: tuple[int, int] | None = None
        """Device and inode of the directory."""
        self._trouble = ""
        self._next = -inf

    def ring(self) -> None:
        """Safe to call from any thread and from signal handlers; a full pipe already wakes the watcher."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"!")

    def quiet(self) -> None:
        """Empty the pipe."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                pass

    def on_stop_signals(self) -> None:
        """SIGTERM and SIGINT ask the watcher to stop; the handler only notes it. Others do nothing.

        They are caught and not ignored, because what is ignored stays so in a runner and in all that it starts."""

        def note(_number: int, _frame: types.FrameType | None) -> None:
            self.stop_asked = True
            self.ring()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, note)
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGPIPE):
            signal.signal(number, lambda *_: None)

    def on_files_in(self, directory: str, names: Collection[str], at: float) -> None:
        """Ring when a file of one of these names comes into `directory`. Called at each look: it watches again when the
        directory was replaced, or its thread has ended. Without inotify the poll has to do."""
        if at < self._next or (self._watched and self._watched == _identity(directory) and self._is_watching()):
            return
        self._next = at + RENEW_SECONDS
        was = self._watched
        self.close()
        try:
            # The identity first: a directory that takes its place between the two is seen at the next look.
            self._watched = _identity(directory)
            self._observer = Observer()  # it is this that takes an instance of inotify
            self._observer.schedule(_Handler(self.ring, names), directory, event_filter=_EVENTS)
            self._observer.start()
        except (OSError, RuntimeError) as error:  # no inotify left, no thread, or no directory
            self._watched = None
            self._next = at + UNAVAILABLE_SECONDS
            if str(error) != self._trouble:
                self._log.warning("watch.unavailable", directory=directory, reason=str(error), instead="poll")
            self._trouble = str(error)
            return
        if was or self._trouble:
            self._log.warning("watch.renewed", directory=directory)
        self._trouble = ""

    def _is_watching(self) -> bool:
        """Its threads live: the one that reads events ends when the directory is removed."""
        observer = self._observer
        return observer is not None and observer.is_alive() and all(each.is_alive() for each in observer.emitters)

    def close(self) -> None:
        if self._observer and self._observer.is_alive():
            self._observer.stop()
            self._observer.join(5.0)
        self._observer = None


def _identity(directory: str) -> tuple[int, int] | None:
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_EVENTS: list[type[FileSystemEvent]] = [FileCreatedEvent, FileMovedEvent]


class _Handler(FileSystemEventHandler):
    """Of all that may come into the directory, only what is a signal is worth a look at once."""

    def __init__(self, ring: Callable[[], None], names: Collection[str]) -> None:
        self._ring = ring
        self._names = names

    def on_any_event(self, event: FileSystemEvent) -> None:
        if os.path.basename(os.fsdecode(event.dest_path or event.src_path)) in self._names:
            self._ring()
