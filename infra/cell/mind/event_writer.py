"""Appends to the chain of events: redacts, links, writes, each event in one write under a lock.

Nothing is synced but at the end of a run: a power cut may take the last half minute of events, and the chain goes on
from the last one that is there. What the keep is told of is on the disk."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import time
from collections.abc import Callable, Iterator

from infra.cell.mind.event import ChainTip, MindEvent, as_line, link, path_of, plain
from infra.cell.mind.event_log import ends_within_line, tip
from infra.shared.file_lock import lock_until
from infra.shared.files import sync_directory
from infra.shared.mind.layout import EVENTS
from infra.shared.redacted_file import RedactedLines
from infra.shared.safe_files import Below

LOCK_SECONDS = 5.0
LOCK_PAUSE = 0.01
MOST_UNTOLD = 1000


_Note = Callable[[ChainTip, int], str]


class EventWriter:
    """Of one run, in the clone at `root`."""

    def __init__(self, root: str, note: Callable[..., object], lock_seconds: float = LOCK_SECONDS) -> None:
        """`note` writes a line into the runner's log."""
        self._directory = os.path.join(root, EVENTS)
        self._mind = Below(root)
        self._lines = RedactedLines(self._mind)
        self._note = note
        self._lock_seconds = lock_seconds
        self._tip: ChainTip | None = None
        self._left: tuple[str, int, int] = ("", -1, -1)
        """The file that was written last, its size then, and when the directory had changed last."""
        self._unsynced = set[str]()
        self._since = 0
        """The first event of those up to `tip` that this writer wrote, one behind the other."""
        self._before = list[tuple[ChainTip, int]]()
        """Tip and `since` of what it wrote before another wrote between, of which the keep knows nothing yet."""
        self._untold = _untold_of(root)
        self.bytes = 0
        """Written by this run."""

    def make_place(self, at: str) -> None:
        """Whatever one run leaves where the events belong must not end the next one: what is no directory there, or no
        file, is set aside, and what is closed is opened. `at` is now, as `timestamp` writes it. Raises OSError."""
        here = (os.path.dirname(EVENTS), stat.S_ISDIR, 0o700), (EVENTS, stat.S_ISDIR, 0o700)
        for path, kind, mode in (*here, (path_of(at), stat.S_ISREG, 0o600)):
            if aside := self._mind.set_aside(path, unless=kind):
                self._note("mind.set_aside", at=aside)
            status = self._mind.status(path)
            if status is None:
                return
            if status.st_mode & mode != mode:
                os.chmod(os.path.join(self._mind.root, path), stat.S_IMODE(status.st_mode) | mode)

    def append(self, event: MindEvent) -> ChainTip:
        """As the last one of the chain. Raises OSError when it is not written; ValueError, TypeError, RecursionError
        for details that JSON cannot hold."""
        path = path_of(event.timestamp)
        os.makedirs(self._directory, exist_ok=True)
        with self._locked():
            before = self._where()
            made: list[ChainTip] = []

            def linked(shown: dict[str, object]) -> bytes:
                fields = link(shown, before)
                made.append(ChainTip(fields["seq"], fields["hash"]))
                line = as_line(fields)
                self.bytes += len(line)
                return line

            torn = path != self._left[0] and ends_within_line(self._mind, path)
            size = self._lines.append(path, plain(event), linked, b"\n" if torn else b"")
            if before != self._tip:
                self._before += [(self._tip, self._since)] if self._tip else []
                self._since = made[0].seq
            self._tip, self._left = made[0], (path, size, self._changed_at())
            self._unsynced.add(path)
        return self._tip

    @property
    def tip(self) -> ChainTip | None:
        """The last event that this writer wrote."""
        return self._tip

    def noted_by(self, note: _Note) -> str:
        """Sync, and tell the keep of what this writer wrote and of nothing else: where it ends, and where it began.
        Before it, what the keep could not be told of by other writers of this process. `note` gives why it is not
        noted, or nothing, and raises OSError when the keep does not say. Gives the same words. Raises OSError."""
        self._sync()
        told = [*self._before, (self._tip, self._since)] if self._tip else []
        self._untold.update((since, (end, note)) for end, since in told)
        self._before.clear()
        while len(self._untold) > MOST_UNTOLD:
            del self._untold[next(iter(self._untold))]
        refused = ""
        for since, (end, tell) in [*self._untold.items()]:
            try:
                refused = tell(end, since)
            except OSError as error:  # none after it, as the keep takes no head before the last that it has
                return str(error)
            del self._untold[since]
        return refused

    def _sync(self) -> None:
        """Raises OSError."""
        for path in sorted(self._unsynced):
            with contextlib.closing(self._mind.opened(path)) as file:
                os.fsync(file.fileno())
        if self._unsynced:
            sync_directory(self._directory)
        self._unsynced.clear()

    def _where(self) -> ChainTip:
        """Where the chain ends now."""
        path, size, changed_at = self._left
        if self._tip and self._size(path) == size and self._changed_at() == changed_at:
            return self._tip
        found = tip(self._mind)
        if self._tip and found.seq > self._tip.seq:
            self._note("mind.events_written_by_another", ours=self._tip.seq, theirs=found.seq)
        elif self._tip and found != self._tip:
            self._note("mind.events_lost", written=self._tip.seq, found=found.seq)
        self._left = ("", -1, -1)
        return self._tip if self._tip and found.seq <= self._tip.seq else found

    def _size(self, path: str) -> int:
        status = self._mind.status(path)
        return status.st_size if status else -1

    def _changed_at(self) -> int:
        return os.stat(self._directory).st_mtime_ns

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone in the directory. Raises OSError when another process stays in it."""
        until = time.monotonic() + self._lock_seconds
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not lock_until(directory, until, LOCK_PAUSE):
                words = f"{self._directory} is locked by another process; find it with fuser(1) and end it"
                raise OSError(errno.EAGAIN, words)
            yield
        finally:
            os.close(directory)


@functools.cache
def _untold_of(root: str) -> dict[int, tuple[ChainTip, _Note]]:
    """By the first event of each stretch, in the order in which they were written: what the keep has still to be told
    by this process. On a disk any command could write there."""
    return {}
