"""Wakes the watcher before its next look: Unix signals and files in `.signal/` become bytes in a pipe.

The look each second is what counts; it goes on when the thread here is gone, or the directory is another."""

from __future__ import annotations

import contextlib
import os
import signal
import types

import structlog
from watchdog.events import FileCreatedEvent, FileMovedEvent, FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from infra.shared.signals import SignalName

NAMES = frozenset(name.value for name in SignalName)


class Wake(FileSystemEventHandler):
    """One pipe that becomes readable when there may be something to see."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.stop_asked = False

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

    def on_signals_in(self, directory: str, log: structlog.stdlib.BoundLogger) -> None:
        """Ring when a signal comes into `directory`, as far as inotify has room for that."""
        try:
            observer = Observer()
            observer.schedule(self, directory, event_filter=[FileCreatedEvent, FileMovedEvent])
            observer.start()
        except (OSError, RuntimeError) as error:
            log.warning("watch.unavailable", directory=directory, reason=str(error))

    def on_any_event(self, event: FileSystemEvent) -> None:
        if os.path.basename(os.fsdecode(event.dest_path or event.src_path)) in NAMES:
            self.ring()
