"""The small life that a candidate has to live: boot, do a directive, hop, come up again, obey SIGTERM.

What counts is what is seen in places that the candidate does not judge itself: the bare repository, the signal
directory, the boot log under this boot's own id, its process. What it says about itself is only shown."""

from __future__ import annotations

import json
import math
import select
import time
from collections.abc import Callable
from typing import NamedTuple

from infra.keep.rehearsal import running, scene
from infra.keep.rehearsal.doors import Doors
from infra.keep.rehearsal.findings import Outage, Patience, Step, Unfit
from infra.keep.rehearsal.running import Player
from infra.keep.rehearsal.scene import Candidate, Scene
from infra.shared import comms
from infra.shared.boot_log import BOOTSTRAPPING, FAILED, SUCCESS
from infra.shared.life_file import SLEEPING
from infra.shared.places import LIFE_FILE
from infra.shared.repository.git import GitError, resolve_commit
from infra.shared.repository.tip import TipBusy
from infra.shared.safe_files import Below
from infra.shared.signals import MAX_BYTES, SignalName, read_signal

TICK_SECONDS = 0.01
GRACE_SECONDS = 5.0
"""Between a signal, or SIGTERM, and the end of the process."""
SETTLE_SECONDS = 1.0
"""So long after its report the rest must be there, and after the second SUCCESS it is asked to end at the latest."""
LOG_BYTES = 4 << 20
"""The most that a life of this length may print."""
DISK_BYTES = 512 << 20
_DISK_EVERY_SECONDS = 0.5


class Done(NamedTuple):
    """What of the first directive is seen on main."""

    pushed: bool = False
    reported: bool = False
    ticked: bool = False


class Rehearsal:
    """One candidate's life between these doors. `steps` tells how far it came."""

    def __init__(self, around: Scene, candidate: Candidate, doors: Doors, seconds: float) -> None:
        self._scene = around
        self._candidate = candidate
        self._doors = doors
        self._seconds = seconds
        self._began = time.monotonic()
        self._patience: Patience | None = None
        self._disk_due = 0.0
        self._page_at = ""
        """Where main was when its page was last looked at for a refused hop."""
        self.steps: list[str] = []

    def live(self) -> None:
        """The whole of it. Raises Unfit, Outage."""
        try:
            self._set_the_scene()
            self._first_life()
            self._second_life()
            self._refuse_excess(whole_disk=True)
        except Unfit as unfit:
            self._refuse_excess(whole_disk=True)
            self._refuse_ruins(unfit.step)
            raise
        except comms.CommsError as error:
            raise Unfit(Step.REPORT, f"COMMS.md of main cannot be understood any more: {error}") from error
        except (GitError, TipBusy) as error:
            raise Outage(f"the scratch repository cannot be used: {error}") from error

    def _refuse_ruins(self, step: Step) -> None:
        """A candidate is to blame only when all that it stands on is sound. Raises Outage."""
        running.refuse_full_disk(self._scene)
        if step is not Step.CLONE:
            self._doors.wait_until_open()
            self._doors.refuse_silent()

    def tell(self, words: str) -> None:
        self.steps.append(f"{time.monotonic() - self._began:6.2f} s  {words}")

    def _set_the_scene(self) -> None:
        self._doors.open_model()
        scene.make_repository(self._scene, self._candidate)
        self._doors.open_git()
        self._commit = scene.make_clone(self._scene, self._candidate)
        self.tell(f"clone: {self._candidate.name()}")

    def _first_life(self) -> None:
        player = self._boot(Step.BOOT, "start")
        try:
            self._do_the_directive(player)
            self._hop(player)
        finally:
            self._end(player)

    def _second_life(self) -> None:
        self._scene.take_back_all()
        player = self._boot(Step.RESTART, "restart: a rehearsal")
        try:
            settled = time.monotonic() + SETTLE_SECONDS
            self._until(
                player, Step.STOP, lambda: _sleeps(player) or time.monotonic() > settled, "a runner that sleeps"
            )
            player.ask_to_end()
            self._until_gone(player, Step.STOP, "SIGTERM")
        finally:
            self._end(player)

    def _boot(self, step: Step, reason: str) -> Player:
        player = running.start(self._scene, self._candidate, self._commit, reason, self._seconds)
        try:
            self._doors.wait_until_open()
            if self._patience is None:
                self._patience = Patience(self._seconds, *_clocks())
            self._until(player, step, lambda: _came_up(player, step), f"{SUCCESS} of this boot in logs/bootstrap.log")
        except BaseException:
            self._end(player)
            raise
        self.tell(f"{step.value}: {SUCCESS}")
        return player

    def _do_the_directive(self, player: Player) -> None:
        looked_at, done, settled = "", Done(), math.inf
        while not all(done):
            over = player.is_over()  # asked first, because its last act may be what is looked for
            late = time.monotonic() > settled or self._patience_left() <= 0
            main = self._scene.main()
            if main != looked_at:
                looked_at, done = main, self._done()
                settled = min(settled, time.monotonic() + SETTLE_SECONDS) if done.reported else settled
            elif over or late:
                step, why = self._what_is_missing(player, done)
                raise Unfit(step, f"{why}; it {'ended with ' + player.how_it_ended() if over else 'goes on without'}")
            else:
                self._pause(player)
        self.tell(f"{Step.REPORT.value}: the directive is done, pushed, reported and ticked")

    def _done(self) -> Done:
        page = comms.with_sections(self._scene.page())
        return Done(
            pushed=self._scene.note() == scene.NOTE_TEXT,
            reported=any(scene.DONE in report for report in comms.reports(page)),
            ticked=scene.FIRST not in [wish.text for wish in comms.open_directives(page)],
        )

    def _what_is_missing(self, player: Player, done: Done) -> tuple[Step, str]:
        """The first thing that is."""
        if not self._doors.calls():
            return Step.DIRECTIVE, "the model was never asked about the open directive"
        if not done.pushed:
            there = player.files.tail(f"{player.checkout}/{scene.NOTE}", 1 << 16).decode(errors="replace")
            if there != scene.NOTE_TEXT:
                return Step.WRITE, f"the model's write_file did not make {scene.NOTE} in the checkout"
            return Step.PUSH, f"{scene.NOTE} is in the checkout, but what was committed is not on main"
        if not done.reported:
            return Step.REPORT, "the model's last words are under no heading of Reports in COMMS.md of main"
        return Step.REPORT, "the directive is not ticked in COMMS.md of main"

    def _hop(self, player: Player) -> None:
        self._scene.tell(scene.SECOND)
        self._until(player, Step.BOOTSTRAP, self._signalled, f"the signal that asks for {scene.NEXT}")
        if resolve_commit(self._scene.bare, f"refs/heads/{scene.NEXT}") is None:
            raise Unfit(Step.BOOTSTRAP, f"it asks for {scene.NEXT}, which it has not pushed")
        self.tell(f"{Step.BOOTSTRAP.value}: a branch is pushed and asked for")
        self._until_gone(player, Step.LEAVE, "its own signal")

    def _signalled(self) -> bool:
        """Raises Unfit for a signal that asks for something else, and when the tool was refused."""
        content = Below(self._scene.places.bot).tail(
            f"{self._scene.places.signals}/{SignalName.BOOTSTRAP.value}", MAX_BYTES + 1
        )
        if content.endswith(b"\n"):
            try:
                target = read_signal(SignalName.BOOTSTRAP, content).target
            except ValueError as error:
                raise Unfit(Step.BOOTSTRAP, str(error)) from error
            if target != scene.NEXT:
                raise Unfit(Step.BOOTSTRAP, f"it asks for {target}; expected {scene.NEXT}")
            return True
        main = self._scene.main()
        if main != self._page_at:
            self._page_at = main
            if scene.CANNOT_HOP in self._scene.page():
                raise Unfit(Step.BOOTSTRAP, "its tool `bootstrap` gave the turn back to the model")
        return False

    def _until_gone(self, player: Player, step: Step, after: str) -> None:
        patience = Patience(GRACE_SECONDS, *_clocks())
        while not player.is_over():
            if patience.left(*_clocks()) <= 0:
                raise Unfit(step, f"it still runs {GRACE_SECONDS:g} s after {after}")
            self._pause(player)
        self.tell(f"{step.value}: gone with {player.how_it_ended()}")

    def _until(self, player: Player, step: Step, look: Callable[[], bool], what: str) -> None:
        """Wait until `look` is true. Raises Unfit when the candidate ends, or its time does."""
        while True:
            over = player.is_over()  # asked first here as well
            if look():
                return
            if over:
                raise Unfit(step, f"it ended with {player.how_it_ended()}; expected {what}")
            if self._patience_left() <= 0:
                raise Unfit(step, f"not seen within {self._seconds:g} s: {what}")
            self._pause(player)

    def _patience_left(self) -> float:
        return self._patience.left(*_clocks()) if self._patience else self._seconds

    def _pause(self, player: Player) -> None:
        """A moment, or until the candidate has ended."""
        self._doors.refuse_dead()
        self._refuse_excess()
        poll = select.poll()
        if player.is_over():
            time.sleep(TICK_SECONDS)
            return
        poll.register(player.pidfd, select.POLLIN)
        poll.poll(TICK_SECONDS * 1000)

    def _refuse_excess(self, whole_disk: bool = False) -> None:
        """Raises Unfit for a candidate that takes too much of the disk."""
        if running.log_bytes(self._scene) > LOG_BYTES:
            raise Unfit(Step.BOUNDS, f"it printed over {LOG_BYTES >> 20} MiB in so short a life")
        now = time.monotonic()
        if whole_disk or now >= self._disk_due:
            self._disk_due = now + _DISK_EVERY_SECONDS
            if running.bytes_below(self._scene.root, DISK_BYTES) > DISK_BYTES:
                raise Unfit(Step.BOUNDS, f"it took over {DISK_BYTES >> 20} MiB of disk in so short a life")

    def _end(self, player: Player) -> None:
        try:
            left = player.end(self._doors.pids())
        except TimeoutError as error:
            raise Unfit(Step.BOUNDS, f"its processes cannot be ended: {error}") from error
        if left:
            self.tell(f"ended what it had left running: {', '.join(left[:5])}{', …' if len(left) > 5 else ''}")


def _clocks() -> tuple[float, float]:
    return time.monotonic(), running.waited_seconds()


def _came_up(player: Player, step: Step) -> bool:
    """Raises Unfit when the boot log says that it did not."""
    words = player.words()
    if FAILED in words and SUCCESS not in words:
        raise Unfit(step, f"its boot failed: {words[FAILED].details.get('reason', 'no reason was given')}")
    return BOOTSTRAPPING in words and SUCCESS in words


def _sleeps(player: Player) -> bool:
    """By its own word, which counts for nothing but the moment at which it is asked to end."""
    try:
        return bool(json.loads(player.files.tail(f"{player.checkout}/{LIFE_FILE}", 4096))["doing"] == SLEEPING)
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
