"""What makes the watcher look at once instead of at its next poll: file events and Unix signals, as bytes in a pipe.

The poll is the contract, because inotify loses events and can be used up; this only makes it quick."""

from __future__ import annotations

import os
import signal
import types

import structlog
from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer


class Wake:
    """One pipe that becomes readable when there may be something to see."""

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.stop_asked = False
        self._log = log
        self._observer = Observer()

    def ring(self) -> None:
        """Safe from any thread and from a signal handler; a full pipe is loud enough."""
        try:
            os.write(self._write, b"!")
        except BlockingIOError:
            return

    def quiet(self) -> None:
        """Empty the pipe."""
        try:
            while os.read(self.fd, 4096):
                pass
        except BlockingIOError:
            return

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

    def on_files_in(self, directory: str) -> None:
        """Ring when something is put into `directory`. Without inotify the poll alone must do; said once."""
        ring = self.ring

        class Handler(FileSystemEventHandler):
            def on_any_event(self, event: FileSystemEvent) -> None:
                if event.event_type in ("created", "moved"):
                    ring()

        try:
            self._observer.schedule(Handler(), directory)
            self._observer.start()
        except (OSError, RuntimeError) as error:  # no inotify left, or no thread
            self._log.warning("watch.unavailable", directory=directory, reason=str(error), instead="poll")

    def close(self) -> None:
        if self._observer.is_alive():
            self._observer.stop()
            self._observer.join(5.0)
