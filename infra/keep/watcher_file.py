"""What the watcher knows: `State` is what `decide` goes by, and it is `watcher.json`, written before each action. So it
survives the watcher, and `minifram status` shows it."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from infra.shared import branches
from infra.shared.clock import timestamp

BOOTS_KEPT, TROUBLES_KEPT, HOPS_KEPT = 20, 10, 100


class Phase(StrEnum):
    STARTING = "starting"
    """No runner; a launch or a rollback is under way."""
    BOOTING = "booting"
    RUNNING = "running"
    ENDING = "ending"
    """It was asked to end."""
    WAITING = "waiting"
    """Nobody runs; the next launch comes at the deadline."""
    STOPPED = "stopped"


class Level(StrEnum):
    """What runs: a requested branch; main; an earlier main that served well; the image's own runner."""

    BRANCH = "branch"
    MAIN = "main"
    GOOD = "last good"
    SAFE = "safe mode"


class Outcome(StrEnum):
    """Of a boot."""

    BOOTING = "booting"
    SUCCESS = "success"
    """It serves."""
    LEFT = "left"
    """It signalled and went, or was asked to end."""
    FAILED = "failed"
    """Before SUCCESS."""
    DIED = "died"
    """After it."""


class Instant(NamedTuple):
    watch: float = 0.0
    """Seconds on the watcher's own clock, which all durations are on."""
    wall: float = 0.0
    """Only written down, for people."""


class Version(msgspec.Struct, frozen=True):
    """What a runner is made of."""

    commit: str = ""
    id: str = ""
    """Of the files that matter to a start, so that commits which only report have the same."""


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """The process that runs, or is about to."""

    boot_id: str = ""
    branch: str = ""
    commit: str = ""
    level: Level = Level.MAIN
    version: str = ""
    """Empty in safe mode."""
    made_for: str = ""
    """The version of main when it was launched; when main has another, it makes way."""
    pid: int = 0
    """0: the attempt is written down, and no process is known yet."""

    @property
    def facts(self) -> dict[str, str]:
        """For a log line."""
        return {"branch": self.branch, "commit": self.commit, "boot_id": self.boot_id}

    @property
    def title(self) -> str:
        version = branches.version(self.branch, self.commit)
        return f"{self.level.value} (in place of {version})" if self.level is Level.SAFE else version


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A signal that was claimed and is not yet carried out."""

    name: str
    target: str
    identity: str = ""
    """Of its file: the same file is never acted on twice. Empty when it is the watcher's own."""
    why: str = ""


class Strikes(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of one version; a pinned one is not started again until main holds another, or the PM says so."""

    version: str
    commit: str
    branch: str
    count: int
    pinned: bool
    why: str
    at: str


class BootRecord(Runner, frozen=True, kw_only=True):
    """One start, for people."""

    reason: str = ""
    started_at: str = ""
    outcome: Outcome = Outcome.BOOTING
    ended_at: str = ""
    detail: str = ""

    @property
    def lived(self) -> bool:
        """It came to SUCCESS."""
        return self.outcome not in (Outcome.BOOTING, Outcome.FAILED)


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    at: str
    text: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A report that is not in COMMS.md yet."""

    id: str
    """In the message of the commit that appends it, so that it is appended once."""
    at: str
    title: str
    text: str


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """The PM's limits, in seconds but for `hops`."""

    boot: float = 60.0
    grace: float = 10.0
    """From asking it to end, or its own signal, to ending it."""
    probation: float = 600.0
    """Of service, until a version of main is known good."""
    stable: float = 6 * 3600.0
    """Of service, until its failures are forgotten: dying every hour is a way to be bad."""
    make_way: float = 300.0
    """From a change of main to the end of a runner that does not make way by itself."""
    hops: int = 6
    """How often within `hops_window` a branch may run while main stays the same version."""
    hops_window: float = 600.0


class State(msgspec.Struct, frozen=True, kw_only=True):
    phase: Phase = Phase.STARTING
    since: Instant = Instant()
    deadline: float | None = None
    """On the watcher's clock, like all moments here."""
    patience: Patience = Patience()
    runner: Runner | None = None
    failed: str = ""
    """Why the runner that is being ended has failed; empty when it is ended for another reason."""
    request: Request | None = None
    """To be carried out once no runner is alive."""
    handled: str = ""
    """Identity of the last signal that was carried out, or given up."""
    main: Version = Version()
    goods: tuple[Version, ...] = ()
    """Versions of main that served well, newest first. The shared repository keeps them; the PM may remove any."""
    strikes: tuple[Strikes, ...] = ()
    failures: int = 0
    """Of main's levels in a row: the delay before the next launch."""
    hops: tuple[tuple[float, str, str], ...] = ()
    """Launches of branches: when, which, and main's version."""
    make_way_by: float | None = None
    """When the runner is ended, unless it makes way for main before."""
    drifted: str = ""
    """Why only safe mode may run: the PM's files of the mind are not as the PM wrote them."""
    stopping: bool = False
    boots: tuple[BootRecord, ...] = ()
    """Oldest first, like the troubles and the reports."""
    troubles: tuple[Trouble, ...] = ()
    untold: tuple[Report, ...] = ()
    """Written together with the decision that they report."""
    code: str = ""
    """Of the watcher itself (`running_code`)."""

    @property
    def active(self) -> Runner:
        """Who runs; an empty one when nobody does."""
        return self.runner or Runner()

    @property
    def pins(self) -> tuple[Strikes, ...]:
        return tuple(each for each in self.strikes if each.pinned)

    def wall(self, moment: float) -> str:
        """A moment of the watcher's clock, for people."""
        return timestamp(self.since.wall + moment - self.since.watch)

    def entered(self, phase: Phase, now: Instant, lasts: float | None = None) -> State:
        """A phase begins; it may last so long."""
        return replace(self, phase=phase, since=now, deadline=None if lasts is None else now.watch + lasts)

    def noted(self, text: str, now: Instant) -> State:
        """For `minifram status`."""
        return replace(self, troubles=(*self.troubles, Trouble(at=timestamp(now.wall), text=text))[-TROUBLES_KEPT:])

    def recorded(self, boot_id: str, outcome: Outcome, detail: str, now: Instant) -> State:
        ended = "" if outcome is Outcome.SUCCESS else timestamp(now.wall)

        def changed(boot: BootRecord) -> BootRecord:
            is_meant = boot.boot_id == boot_id
            return replace(boot, outcome=outcome, detail=detail, ended_at=ended) if is_meant else boot

        return replace(self, boots=tuple(map(changed, self.boots)))

    def settled(self) -> State:
        """The request is carried out, or given up; its file may be found once more."""
        identity = self.request.identity if self.request else ""
        return replace(self, request=None, handled=identity or self.handled)

    def hopped(self, branch: str, now: Instant) -> State:
        return replace(self, hops=(*self.hops, (now.watch, branch, self.main.id))[-HOPS_KEPT:])

    def current(self, boot_id: str) -> Runner | None:
        """The runner, if this boot is its."""
        return self.runner if self.runner and self.runner.boot_id == boot_id else None

    def may_fail(self) -> bool:
        """A runner boots or serves, and nothing ends it already."""
        return self.phase in (Phase.BOOTING, Phase.RUNNING) and not (self.stopping or self.request)

    def is_for(self, branch: str) -> bool:
        """A launch of this branch is what was requested."""
        return self.request is not None and (self.request.name, self.request.target) == ("bootstrap", branch)

    def is_good(self, runner: Runner) -> bool:
        return runner.level is Level.SAFE or any(good.id == runner.version for good in self.goods)

    def pin_of(self, version: str) -> Strikes | None:
        return next((pin for pin in self.pins if version and pin.version == version), None)


def encode(state: State) -> bytes:
    """What cannot be UTF-8 (half of a surrogate pair, bytes of a strange file name) is written as `?`."""
    return json.dumps(msgspec.to_builtins(state), ensure_ascii=False, indent=1).encode(errors="replace") + b"\n"


def decode(content: bytes) -> State:
    """Raises ValueError for content that is no state."""
    try:
        return msgspec.json.decode(content, type=State)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a watcher state: {error}") from None
