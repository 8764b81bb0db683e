"""The small life that a candidate has to live: boot, do a directive, hop, come up again, obey SIGTERM.

What counts is what is seen in places that the candidate does not judge itself: the bare repository, the signal
directory, the boot log under this boot's own id, its process. What it says about itself is only shown."""

from __future__ import annotations

import json
import math
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from infra.keep.rehearsal import candidate, scratch
from infra.keep.rehearsal.candidate import CandidateRunner
from infra.keep.rehearsal.doors import Doors
from infra.keep.rehearsal.findings import CandidateTime, Outage, Stage, Unfit
from infra.keep.rehearsal.scratch import RehearsedVersion, Scratch
from infra.shared import comms
from infra.shared.boot_log import BOOTSTRAPPING, FAILED, SUCCESS
from infra.shared.paths import LIFE_FILE
from infra.shared.repository.git import GitError, resolve_commit
from infra.shared.repository.tip import TipBusy
from infra.shared.safe_files import Below
from infra.shared.signals import MAX_BYTES, SignalName, read_signal
from infra.shared.status_file import SLEEPING

TICK_SECONDS = 0.02
GRACE_SECONDS = 5.0
"""Between a signal, or SIGTERM, and the end of the process."""
SETTLE_SECONDS = 1.0
"""So long after its report the rest must be there, and after the second SUCCESS it is asked to end at the latest."""
LOG_BYTES = 4 << 20
"""The most that a life of this length may print."""
DISK_BYTES = 512 << 20
_DISK_EVERY_SECONDS = 1.0


class Done(NamedTuple):
    """What of the first directive is seen on main."""

    pushed: bool = False
    reported: bool = False
    ticked: bool = False


class _NotUnderstood(Unfit):
    """What is seen to be missing is only what followed."""

    def __init__(self, stage: Stage, then: str) -> None:
        super().__init__(
            stage,
            "the model was asked in a form that it does not know: it finds the open directive in COMMS.md, the second "
            f"text of `system`, and that one had none of the rehearsal's; so {then}",
        )


class Rehearsal:
    """One life of a version between these doors. `steps` says how far it came."""

    def __init__(self, made: Scratch, version: RehearsedVersion, doors: Doors, seconds: float) -> None:
        self._scratch, self._version, self._doors, self._seconds = made, version, doors, seconds
        self._began = time.monotonic()
        self._time: CandidateTime | None = None
        self._disk_due = 0.0
        self._page_at = ""
        """Where main was when its page was last looked at for a refused hop."""
        self.steps: list[str] = []

    def live(self) -> None:
        """The whole of it. Raises Unfit, Outage."""
        try:
            self._prepare()
            with self._booted(Stage.BOOT, "start") as player:
                self._do_the_directive(player)
                self._hop(player)
            self._scratch.tick_all()
            with self._booted(Stage.RESTART, "restart: a rehearsal") as player:
                settled = time.monotonic() + SETTLE_SECONDS
                sleeps = "a runner that sleeps"
                self._until(player, Stage.STOP, lambda: _sleeps(player) or time.monotonic() > settled, sleeps)
                player.ask_to_end()
                self._until_gone(player, Stage.STOP, "SIGTERM")
            self._refuse_excess(whole_disk=True)
        except Unfit as unfit:
            self._refuse_excess(whole_disk=True)
            # A candidate is to blame only when all that it stands on is sound.
            candidate.refuse_full_disk(self._scratch)
            if unfit.stage is not Stage.CLONE:
                self._doors.wait_until_open()
                self._doors.refuse_silent()
            if self._doors.strangers() and not isinstance(unfit, _NotUnderstood):
                raise _NotUnderstood(unfit.stage, str(unfit)) from unfit
            raise
        except comms.CommsError as error:
            raise Unfit(Stage.REPORT, f"COMMS.md of main cannot be understood any more: {error}") from error
        except (GitError, TipBusy) as error:
            raise Outage(f"the scratch repository cannot be used: {error}") from error

    def _note(self, words: str) -> None:
        self.steps.append(f"{time.monotonic() - self._began:6.2f} s  {words}")

    def _prepare(self) -> None:
        objects = scratch.objects_of(self._version)  # what needs no door is asked before one is opened
        self._doors.open_model()
        scratch.make_repository(self._scratch, self._version, objects)
        self._doors.open_git()
        self._commit = scratch.make_clone(self._scratch, self._version)
        self._note(f"clone: {self._version.name()}")

    @contextmanager
    def _booted(self, stage: Stage, reason: str) -> Iterator[CandidateRunner]:
        """A runner that has come up; it and all that it started end with the block."""
        player = candidate.start(self._scratch, self._version, self._commit, reason, self._seconds)
        try:
            self._doors.wait_until_open()
            if self._time is None:
                self._time = CandidateTime(self._seconds, *_clocks())
            self._until(player, stage, lambda: _came_up(player, stage), f"{SUCCESS} of this boot in logs/bootstrap.log")
            self._note(f"{stage.value}: {SUCCESS}")
            yield player
        finally:
            self._end(player)

    def _do_the_directive(self, player: CandidateRunner) -> None:
        looked_at, done, settled = "", Done(), math.inf
        while not all(done):
            over = player.is_over()  # asked first, because its last act may be what is looked for
            late = time.monotonic() > settled or self._time_left() <= 0
            main = self._scratch.main()
            if main != looked_at:
                looked_at, done = main, self._done()
                if self._doors.strangers():
                    raise _NotUnderstood(Stage.DIRECTIVE, "nothing was done")
                settled = min(settled, time.monotonic() + SETTLE_SECONDS) if done.reported else settled
            elif over or late:
                stage, why = self._what_is_missing(player, done)
                why += candidate.first_error(self._scratch)
                raise Unfit(stage, f"{why}; it {'ended with ' + player.how_it_ended() if over else 'goes on without'}")
            else:
                self._pause(player)
        self._note(f"{Stage.REPORT.value}: the directive is done, pushed, reported and ticked")

    def _done(self) -> Done:
        page = self._scratch.page()
        return Done(
            pushed=self._scratch.note() == scratch.NOTE_TEXT,
            reported=any(scratch.DONE in report for report in comms.reports(page)),
            ticked=scratch.FIRST not in [wish.text for wish in comms.open_directives(page)],
        )

    def _what_is_missing(self, player: CandidateRunner, done: Done) -> tuple[Stage, str]:
        """The first thing that is."""
        if not self._doors.calls():
            return Stage.DIRECTIVE, "the model was never asked about the open directive"
        if not done.pushed:
            there = player.files.tail(f"{player.checkout}/{scratch.NOTE}", 1 << 16).decode(errors="replace")
            if there != scratch.NOTE_TEXT:
                return Stage.WRITE, f"the model's write_file did not make {scratch.NOTE} in the checkout"
            return Stage.PUSH, f"{scratch.NOTE} is in the checkout, but what was committed is not on main"
        if not done.reported:
            return Stage.REPORT, "the model's last words are under no heading of Reports in COMMS.md of main"
        return Stage.REPORT, "the directive is not ticked in COMMS.md of main"

    def _hop(self, player: CandidateRunner) -> None:
        self._scratch.direct(scratch.SECOND)
        self._until(player, Stage.BOOTSTRAP, self._signalled, f"the signal that asks for {scratch.NEXT}")
        if resolve_commit(self._scratch.bare, f"refs/heads/{scratch.NEXT}") is None:
            raise Unfit(Stage.BOOTSTRAP, f"it asks for {scratch.NEXT}, which it has not pushed")
        self._note(f"{Stage.BOOTSTRAP.value}: a branch is pushed and asked for")
        self._until_gone(player, Stage.LEAVE, "its own signal")

    def _signalled(self) -> bool:
        """Raises Unfit for a signal that asks for something else, and when the tool was refused."""
        places = self._scratch.places
        content = Below(places.bot).tail(f"{places.signals}/{SignalName.BOOTSTRAP.value}", MAX_BYTES + 1)
        if content.endswith(b"\n"):
            try:
                target = read_signal(SignalName.BOOTSTRAP, content).target
            except ValueError as error:
                raise Unfit(Stage.BOOTSTRAP, str(error)) from error
            if target != scratch.NEXT:
                raise Unfit(Stage.BOOTSTRAP, f"it asks for {target}; expected {scratch.NEXT}")
            return True
        main = self._scratch.main()
        if main != self._page_at:
            self._page_at = main
            if scratch.CANNOT_HOP in self._scratch.page():
                raise Unfit(Stage.BOOTSTRAP, "its tool `bootstrap` gave the turn back to the model")
        return False

    def _until_gone(self, player: CandidateRunner, stage: Stage, after: str) -> None:
        grace = CandidateTime(GRACE_SECONDS, *_clocks())
        while not player.is_over():
            if grace.left(*_clocks()) <= 0:
                raise Unfit(stage, f"it still runs {GRACE_SECONDS:g} s after {after}")
            self._pause(player)
        self._note(f"{stage.value}: gone with {player.how_it_ended()}")

    def _until(self, player: CandidateRunner, stage: Stage, look: Callable[[], bool], what: str) -> None:
        """Wait until `look` is true. Raises Unfit when the candidate ends, or its time does."""
        while True:
            over = player.is_over()  # asked first here as well
            if look():
                return
            if over:
                raise Unfit(stage, f"it ended with {player.how_it_ended()}; expected {what}")
            if self._time_left() <= 0:
                raise Unfit(stage, f"not seen within {self._seconds:g} s: {what}")
            self._pause(player)

    def _time_left(self) -> float:
        return self._time.left(*_clocks()) if self._time else self._seconds

    def _pause(self, player: CandidateRunner) -> None:
        """A moment, or until the candidate has ended."""
        self._doors.refuse_dead()
        self._refuse_excess()
        if player.is_over():
            time.sleep(TICK_SECONDS)
            return
        poll = select.poll()
        poll.register(player.pidfd, select.POLLIN)
        poll.poll(TICK_SECONDS * 1000)

    def _refuse_excess(self, whole_disk: bool = False) -> None:
        """Raises Unfit for a candidate that takes too much of the disk."""
        if candidate.log_bytes(self._scratch) > LOG_BYTES:
            raise Unfit(Stage.BOUNDS, f"it printed over {LOG_BYTES >> 20} MiB in so short a life")
        now = time.monotonic()
        if whole_disk or now >= self._disk_due:
            self._disk_due = now + _DISK_EVERY_SECONDS
            if candidate.bytes_below(self._scratch.root, DISK_BYTES) > DISK_BYTES:
                raise Unfit(Stage.BOUNDS, f"it took over {DISK_BYTES >> 20} MiB of disk in so short a life")

    def _end(self, player: CandidateRunner) -> None:
        try:
            left = player.end(self._doors.pids())
        except TimeoutError as error:
            raise Unfit(Stage.BOUNDS, f"its processes cannot be ended: {error}") from error
        if left:
            self._note(f"ended what it had left running: {', '.join(left[:5])}{', …' if len(left) > 5 else ''}")


def _clocks() -> tuple[float, float]:
    return time.monotonic(), candidate.waited_seconds()


def _came_up(player: CandidateRunner, stage: Stage) -> bool:
    """Raises Unfit when the boot log says that it did not."""
    words = player.words()
    if FAILED in words and SUCCESS not in words:
        raise Unfit(stage, f"its boot failed: {words[FAILED].details.get('reason', 'no reason was given')}")
    return BOOTSTRAPPING in words and SUCCESS in words


def _sleeps(player: CandidateRunner) -> bool:
    """By its own word, which counts for nothing but the moment at which it is asked to end."""
    try:
        return bool(json.loads(player.files.tail(f"{player.checkout}/{LIFE_FILE}", 4096))["doing"] == SLEEPING)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
