"""The events that memory, skills and duties go by: those that the keep vouches for, and no others.

Any command of a run can write into the files of events. What a line says counts when a head that the keep holds follows
from it; what does not fit is told, once, and nothing is learned from it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator

from infra.cell.mind.event import EventLine, EventProblem
from infra.cell.mind.event_log import event_files, logged_in
from infra.cell.mind.mind import MindContext
from infra.cell.mind.reflections import tell_failure
from infra.cell.mind.vouched import Vouched
from infra.shared.clock import timestamp
from infra.shared.requests import MAX_HEADS, HeldHead
from infra.shared.safe_files import Below
from infra.shared.text import counted

_DAY_SECONDS = 86_400.0
_Stamp = tuple[int, int, int]


class _Memory:
    """What this process has found out about the events of one mind."""

    def __init__(self) -> None:
        self.vouched = Vouched()
        self.settled = dict[str, _Stamp]()
        """Files of which each line is vouched for, as they were."""
        self.newest: HeldHead | None = None
        """The last that the keep held."""
        self.told = set[EventProblem]()
        self.is_unvouched = False
        """There is no keep to be asked."""


class VouchedEvents:
    """Of the mind of this context. Nothing is vouched for before `verify`, or `verify_newest`, was called."""

    def __init__(self, context: MindContext) -> None:
        self._context = context
        self._below = Below(context.places.mind)
        self._memory = _memory_of(context.places.mind)

    def verify(self) -> str:
        """All files, against all heads: for what is done once a day. Gives words about what does not fit. Raises
        OSError, also when the keep does not say."""
        heads = newest = self._context.heads(0)
        while heads and newest and len(newest) == MAX_HEADS:
            newest = self._context.heads(newest[0].seq)
            heads = (*(newest or ()), *heads)
        return self._tell(self._verify(heads, ""))

    def verify_newest(self) -> None:
        """Those of today and yesterday, so that it costs the same however long the agent has lived; what was verified
        before in this process stays so. Raises as `verify` does."""
        self._verify(self._context.heads(0), timestamp(max(0.0, self._context.now() - _DAY_SECONDS))[:10])

    def lines(self, since: str = "", is_wanted: Callable[[bytes], bool] = bool) -> Iterator[EventLine]:
        """Of the files from this day on, in the order of days. Raises OSError when the directory cannot be read."""
        for path in event_files(self._below, since):
            yield from self.lines_of(path, is_wanted)

    def lines_of(self, path: str, is_wanted: Callable[[bytes], bool] = bool) -> Iterator[EventLine]:
        """A line that is not vouched for is no event, and NOT_VOUCHED says so. Nothing of a file that is missing;
        others that cannot be read are one line that is no event."""
        lines = logged_in(self._below, path, is_wanted)
        yield from lines if self._memory.is_unvouched else self._memory.vouched.sifted(lines)

    def _verify(self, heads: tuple[HeldHead, ...] | None, since: str) -> list[EventProblem]:
        memory = self._memory
        if heads is None:
            if not memory.is_unvouched:
                self._context.note("mind.events_not_vouched_for", why="no keep is asked")
            memory.is_unvouched = True
            return []
        memory.is_unvouched = False
        if memory.newest not in (None, *heads):  # the PM has moved the record away
            memory.vouched, memory.settled = Vouched(), {}
        memory.newest = heads[-1] if heads else None
        stamps = {path: stamp for path in event_files(self._below, since) if (stamp := self._stamp(path))}
        unsettled = [path for path, stamp in stamps.items() if memory.settled.get(path) != stamp]
        problems = memory.vouched.take((line for path in unsettled for line in logged_in(self._below, path)), heads)
        for path in unsettled:
            if all(memory.vouched.holds(line.raw) for line in logged_in(self._below, path)):
                memory.settled[path] = stamps[path]
        return problems

    def _tell(self, problems: Iterable[EventProblem]) -> str:
        """Each of them once."""
        new = [each for each in problems if each not in self._memory.told]
        if not new:
            return ""
        self._memory.told.update(new)
        more = f" (and {len(new) - 1:,} more)" if len(new) > 1 else ""
        words = f"{counted(len(new), 'line')} of events not learned from: {new[0]}{more}"
        self._context.note("mind.events_do_not_fit", first=str(new[0]), lines=len(new))
        text = (
            f"{timestamp(self._context.now())}: {words}.\n\nThe keep does not vouch for what stands there: no memory "
            "and no skill rests on it. 'minifram doctor' shows what does not fit, and what to do."
        )
        try:
            tell_failure(self._context.places.mind, f"Events that do not fit, {new[0].path}", text)
        except OSError as error:
            self._context.note("mind.failure_not_told", error=str(error))
        return f"{words}; 'minifram doctor' shows what does not fit"

    def _stamp(self, path: str) -> _Stamp | None:
        status = self._below.status(path)
        return (status.st_ino, status.st_size, status.st_mtime_ns) if status else None


@functools.cache
def _memory_of(root: str) -> _Memory:
    return _Memory()
