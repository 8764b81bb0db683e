"""What one look at the machine finds, and what the judge concludes from it: values and nothing else. Counters only
grow, and all times are the kernel's own clocks; no wall time is in it, so that a clock which is set changes no
verdict."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from infra.keep.active import Runner

TICKS = os.sysconf("SC_CLK_TCK")
"""The kernel counts processor time, and when a process started, in this part of a second."""


class Bounds(NamedTuple):
    """What the judge goes by: the PM's `limits.log_bytes` and `limits.bash_seconds`, and constants."""

    log_bytes: int = 20 * 1024 * 1024
    bash_seconds: float = 600.0
    validation_seconds: float = 900.0
    sample_seconds: float = 30.0
    """How often the watcher looks at what the agent uses of the machine: a look costs milliseconds."""
    cpu_seconds: float = 1800.0
    """All processors busy for so long, twice in a row, without a model call or a push: the runner is stopped."""
    cpu_fraction: float = 0.95
    """The share of processor time that counts as all of it."""
    free_bytes: int = 256 * 1024 * 1024
    """With less free on a disk, or fewer than 5 % of its inodes, room is made: a clone with its environment fits."""
    tokens_per_hour: int = 5_000_000
    """More than this without a push, without cached ones, twice in a row: the runner is stopped. A hard hour takes a
    tenth of it."""
    steps_per_hour: int = 3000
    """One call every 1.2 s is a loop that waits for nothing."""
    branch_dirs: int = 20
    """How many clones of branches are kept; beyond it the oldest that hold nothing of their own go."""


class Process(NamedTuple):
    """One process of the cell, a zombie too: its time is its parent's only when that has waited for it."""

    pid: int
    started: int
    """Ticks since the machine began; with the pid it names one process until the machine ends."""
    name: str
    """For people: its own choice, cut and made harmless."""
    own: float
    """Processor seconds, of all its threads."""
    children: float
    """Of the children that it has waited for, and theirs."""


class Log(NamedTuple):
    name: str
    """Below the agent's directory: `main/minifram/logs/errors.log`."""
    identity: tuple[int, int]
    """Device and inode: a log that is renamed is the same log."""
    size: int
    """What it takes on the disk, at most what it says: a hole is nothing."""
    changed: float = 0.0
    """When it was last written, by the wall clock: only the order in which logs are cut depends on it."""
    is_record: bool = False
    """One of `paths.RECORDS`: it is never cut."""


class Volume(NamedTuple):
    """The disk below one of the agent's directories. `total` and `inodes` are 0 where there is no fixed number."""

    name: str
    free: int
    total: int
    inodes_free: int
    inodes: int


class Weight(NamedTuple):
    """What everything in the agent's directory takes."""

    size: int
    files: int
    whole: bool
    """False: there was more than one look takes, or a part that could not be looked into."""


class Progress(NamedTuple):
    """What the keep itself saw the agent do, counted from the first look; nothing here is the agent's own word."""

    calls: int = 0
    """Model calls that ended with an answer."""
    tokens: int = 0
    """That they took, without what a provider had cached: each step reads the whole conversation again."""
    moves: int = 0
    """Looks at which the shared repository had something new that is not the watcher's."""
    ledger_end: int = 0
    heads: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One look."""

    monotonic: float
    """When it began, without the time that the machine slept."""
    boottime: float
    """The same, with that time."""
    took: float
    runner: Runner | None
    cores: float
    """Processors that the cell may use."""
    processes: tuple[Process, ...]
    reaped: float
    """Processor seconds of what the watcher has waited for: what lost its parent is handed to it. Its own git calls are
    in it as well, which is some milliseconds a look."""
    group_seconds: float | None
    """Processor seconds of the container without the keep's, where the kernel counts for it alone."""
    logs: tuple[Log, ...]
    volumes: tuple[Volume, ...]
    weight: Weight | None
    """Only when it was asked for."""
    progress: Progress | None
    """None: it could not be seen, which is not the same as none."""
    is_asleep: bool = False
    """The agent says that it sleeps, in `life.json`."""
    has_services: bool = False
    """It says that it keeps services running."""
    is_excused: bool = False
    """Since the look before, the keep itself had something run in the cell: an installation, a rehearsal, tests."""
    left_out: tuple[str, ...] = ()
    """What could not be looked at, and why."""


class Rule(Enum):
    CPU = "cpu"
    IDLE = "idle"
    TOKENS = "tokens"
    STEPS = "steps"
    LOGS = "logs"
    DISK = "disk"


class Remedy(Enum):
    """What to do, in the order in which it is tried."""

    TELL = "tell"
    """Report it to the PM; nothing else."""
    TRIM_LOG = "trim log"
    """`Below.cut` of `path`."""
    TIDY = "tidy"
    """`room.choose` with room short, then remove that."""
    KILL = "kill"
    """`processes`, and nothing else."""
    END = "end"
    """The runner of this finding, with all that it started."""


class Finding(NamedTuple):
    rule: Rule
    remedy: Remedy
    measured: float
    limit: float
    seconds: float
    """For how long."""
    observations: int
    """Independent looks, or windows, in a row that found it."""
    text: str
    """For the PM."""
    runner: Runner | None
    """Boot, pid and start time of the one that it is about: no other is ended for it."""
    path: str = ""
    """Of a log, below the agent's directory."""
    processes: tuple[Process, ...] = ()
    """What takes the processor time."""
