"""The watcher's state, in `watcher.json`: it survives the watcher, and `minifram status` shows it.

Replaced as a whole at each change. Times are wall times for people; no decision is based on them."""

from __future__ import annotations

import json

import msgspec

SCHEMA = "minifram.watcher/1"

STARTING, PREPARING, BOOTING, RUNNING = "starting", "preparing", "booting", "running"
ENDING, WAITING, STOPPED = "ending", "waiting", "stopped"
"""Phases: no runner yet; its environment is made, or it is rehearsed; launched, not yet seen to be well; it serves;
asked to end; to be launched later; the watcher left."""
BRANCH_LEVEL, MAIN_LEVEL, GOOD_LEVEL, SAFE_LEVEL = "branch", "main", "last good", "safe mode"
"""What runs: the branch that was requested; main; an earlier main; the image's own runner."""
LIVED = ("success", "left", "died")
"""Outcomes of a boot that came to SUCCESS."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner is made of."""

    commit: str = ""
    id: str = ""
    """Of the files that matter to a runner, so that commits which only report have the same."""
    body: str = ""
    """Of the part of them that a runner cannot take over while it runs."""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A version that is not started again until main holds another or the PM says so (`minifram retry`)."""

    version: str
    commit: str
    branch: str
    why: str
    at: str
    proven: bool = False
    """Another version has served its probation since, so it was this one's fault."""


class VersionFailures(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    count: int


class BootRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One start of one runner, and its outcome."""

    id: str
    branch: str
    commit: str
    reason: str
    started_at: str
    outcome: str = BOOTING
    """`booting`, `success` (running), `left` (it signalled and went), `failed` (no SUCCESS), `died` (after SUCCESS)."""
    ended_at: str = ""
    detail: str = ""
    level: str = MAIN_LEVEL
    version: str = ""


class SignalRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal that was claimed and is not yet carried out."""

    name: str
    target: str
    identity: str
    """Inode and modification time of the file: the same file is never acted on twice."""
    why: str = ""
    """The reason of the start that follows, when nobody's signal is."""


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


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the state that is restored unchanged by the next watcher."""

    request: SignalRequest | None = None
    """The signal to carry out once no runner is alive."""
    handled: str = ""
    """Identity of the last signal that was carried out."""
    failures: int = 0
    """Consecutive failed launches, except requested ones; determines the delay before the next."""
    main: Version = Version()
    """What main held when it was last read."""
    known_good: tuple[Version, ...] = ()
    """Versions of main that have served their probation, the latest first."""
    pins: tuple[Pin, ...] = ()
    version_failures: tuple[VersionFailures, ...] = ()
    """Of versions that are not pinned yet."""
    safe_mode_failures: int = 0
    """How often in a row even safe mode failed."""
    withdrawn: tuple[str, ...] = ()
    """Ids of versions that the PM has rolled back from or rejected: none of them replaces main."""
    pardoned: tuple[str, ...] = ()
    """Those of them that the PM allowed again (`minifram retry`)."""
    boots: tuple[BootRecord, ...] = ()
    """The last ones, oldest first."""
    troubles: tuple[Trouble, ...] = ()
    """The last ones, oldest first."""


class WatcherFile(Remembered, frozen=True, kw_only=True):
    schema: str = SCHEMA
    phase: str = STARTING
    since: str = ""
    until: str = ""
    """When waiting: the next launch."""
    branch: str = ""
    commit: str = ""
    boot_id: str = ""
    runner_pid: int = 0
    runner_started: float = 0.0
    """The kernel's start time of that pid (psutil create_time): together they name one process for ever."""
    level: str = MAIN_LEVEL
    version: str = ""
    launched_for: str = ""
    """What of main the runner was launched for: its body or, for a substitute of main, its version."""
    make_way_by: str = ""
    """When the runner is stopped, unless it makes way for main before."""
    code: str = ""
    """Of the watcher itself (`running_code`)."""
    untold: tuple[Report, ...] = ()
    """Oldest first; written together with the decision that they report."""


def encode(state: WatcherFile) -> bytes:
    """What cannot be UTF-8 (half of a surrogate pair, bytes of a strange file name) is written as `?`."""
    fields = msgspec.to_builtins(state)
    try:
        plain = msgspec.json.encode(fields)
    except UnicodeEncodeError:
        plain = json.dumps(fields, ensure_ascii=False).encode(errors="replace")
    return msgspec.json.format(plain, indent=1) + b"\n"


def decode(content: bytes) -> WatcherFile:
    """Raises ValueError for content that is not of this schema."""
    try:
        state = msgspec.json.decode(content, type=WatcherFile)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a watcher state: {error}") from None
    if state.schema != SCHEMA:
        raise ValueError(f"watcher state has schema {state.schema!r}; this version reads {SCHEMA!r}")
    return state
