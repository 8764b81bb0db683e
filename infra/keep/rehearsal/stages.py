"""The small life that a candidate has to live: boot, do a directive, hop, come up again, obey SIGTERM.

What counts is what is seen in places that an honest candidate does not judge itself: the bare repository, the signal
directory, the boot log under this boot's own id, its process. What it says about itself is only shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from infra.keep.code import NoCode
from infra.keep.rehearsal import candidate, scene
from infra.keep.rehearsal.candidate import CandidateRunner
from infra.keep.rehearsal.doors import Doors
from infra.keep.rehearsal.scene import Scene
from infra.keep.services.processes import sweep
from infra.shared import comms
from infra.shared.boot import BOOTSTRAPPING, FAILED, SUCCESS
from infra.shared.conversation import REFUSAL
from infra.shared.paths import LIFE_FILE, SLEEPING
from infra.shared.repository.git import resolve_commit
from infra.shared.safe_files import Below
from infra.shared.signals import MAX_BYTES, SignalName, read_signal

TICK_SECONDS = 0.02
SETTLE_SECONDS = 1.0
"""After the second SUCCESS it is asked to end at the latest."""
_NO_ANSWER = """\
the model was asked what its script has no answer to: in a form that it does not know (it finds the open directive in \
COMMS.md, the second text of `system`), or by a tool that gave it the turn back"""


class Unfit(Exception):
    """The candidate did not get through a stage, which is the first word."""


class Life:
    """One life of a candidate."""

    def __init__(self, made: Scene, python: str, seconds: float) -> None:
        """`seconds`: from its first start to its last end."""
        self._scene, self._python, self._seconds = made, python, seconds
        self._doors = Doors(made)
        self._deadline = 0.0
        self._main = ""
        """Where main was when it was last looked at."""

    def live(self, commit: str, pack: bytes) -> None:
        """Raises Unfit; and Outage, GitError, TipBusy, Unreadable, OSError for what says nothing about it."""
        self._scene.make_directories()
        self._doors.open_model()
        first = self._scene.make_repository(commit, pack)
        self._doors.open_git()
        self._deadline = time.monotonic() + self._seconds
        try:
            with self._booted("boot", first, "start") as player:
                asked = "a question to the model about the open directive"
                self._until(player, "directive", asked, lambda: bool(self._doors.answers()))
                reported = "the model's last words under a heading of Reports in COMMS.md of main"
                self._until(player, "report", reported, lambda: self._is_done(player))
                self._scene.direct(scene.SECOND)
                self._until(player, "bootstrap", f"the signal that asks for {scene.NEXT}", self._is_signalled)
                self._until(player, "leave", "its end after its own signal", player.is_over)
            self._scene.tick_all()
            with self._booted("restart", first, "restart: a rehearsal") as player:
                settled = time.monotonic() + SETTLE_SECONDS
                sleeps = "a runner that sleeps"
                self._until(player, "stop", sleeps, lambda: _sleeps(player) or time.monotonic() > settled)
                player.ask_to_end()
                self._until(player, "stop", "its end after SIGTERM", player.is_over)
        except Unfit:
            self._doors.refuse_dead()
            raise
        except NoCode as error:
            raise Unfit(f"code: {error}") from error
        except comms.CommsError as error:
            raise Unfit(f"report: COMMS.md of main cannot be understood any more: {error}") from error

    @contextmanager
    def _booted(self, stage: str, commit: str, reason: str) -> Iterator[CandidateRunner]:
        """A runner that has come up; it and all that it started end with the block."""
        player = candidate.start(self._scene, self._python, commit, reason, self._seconds)
        try:
            self._doors.wait_until_open()
            expected = f"{SUCCESS} of this boot in logs/bootstrap.log"
            self._until(player, stage, expected, lambda: _came_up(player, stage))
            yield player
        finally:
            sweep(self._doors.pids())

    def _is_done(self, player: CandidateRunner) -> bool:
        """Raises Unfit when the first directive is reported, and something of it is not there."""
        main = self._scene.main()
        if main == self._main:
            return False
        self._main, page = main, self._scene.page()
        if not any(scene.DONE in report for report in comms.reports(page)):
            return False
        if self._scene.note() != scene.NOTE_TEXT:
            if player.files.tail(f"{player.checkout}/{scene.NOTE}", 1000).decode(errors="replace") != scene.NOTE_TEXT:
                raise Unfit(f"write: the model's write_file did not make {scene.NOTE} in the checkout")
            raise Unfit(f"push: {scene.NOTE} is in the checkout, but what was committed is not on main")
        if scene.FIRST in [wish.text for wish in comms.open_directives(page)]:
            raise Unfit("report: the directive is not ticked in COMMS.md of main")
        return True

    def _is_signalled(self) -> bool:
        """Raises Unfit for a signal that asks for something else, or for what is not there."""
        places = self._scene.places
        content = Below(places.bot).tail(f"{places.signals}/{SignalName.BOOTSTRAP.value}", MAX_BYTES + 1)
        if not content.endswith(b"\n"):
            return False
        try:
            target = read_signal(SignalName.BOOTSTRAP, content).target
        except ValueError as error:
            raise Unfit(f"bootstrap: {error}") from error
        if target != scene.NEXT or resolve_commit(self._scene.bare, f"refs/heads/{target}") is None:
            raise Unfit(f"bootstrap: it asks for {target}; expected {scene.NEXT}, and that it has pushed it")
        return True

    def _until(self, player: CandidateRunner, stage: str, expected: str, is_there: Callable[[], bool]) -> None:
        """Wait for something. Raises Unfit when the candidate ends without it, the model gives up, or time is over."""
        while True:
            over = player.is_over()  # asked first, because its last act may be what is looked for
            if is_there():
                return
            self._doors.refuse_dead()
            if over:
                raise Unfit(f"{stage}: it ended with {player.how_it_ended()}; expected {expected}")
            if REFUSAL in self._doors.answers():
                raise Unfit(f"{stage}: {_NO_ANSWER}; expected {expected}")
            if time.monotonic() > self._deadline:
                raise Unfit(f"{stage}: not seen within {self._seconds:g} s: {expected}")
            time.sleep(TICK_SECONDS)


def _came_up(player: CandidateRunner, stage: str) -> bool:
    """Raises Unfit when the boot log says that it did not."""
    words = player.words()
    if FAILED in words and SUCCESS not in words:
        raise Unfit(f"{stage}: its boot failed: {words[FAILED].details.get('reason', 'no reason was given')}")
    return BOOTSTRAPPING in words and SUCCESS in words


def _sleeps(player: CandidateRunner) -> bool:
    """By its own word, which counts for nothing but the moment at which it is asked to end."""
    return SLEEPING.encode() in player.files.tail(f"{player.checkout}/{LIFE_FILE}", 4096)
