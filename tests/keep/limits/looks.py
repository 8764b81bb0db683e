"""A series of looks written by hand: what a machine would show, one look after the other, given to the real judge."""

from __future__ import annotations

import dataclasses

from infra.keep.active import Runner
from infra.keep.limits.judge import Memory, judge
from infra.keep.limits.values import (
    TICKS,
    Bounds,
    Finding,
    Log,
    Process,
    Progress,
    Remedy,
    Rule,
    Sample,
    Volume,
    Weight,
)

RUNNER = Runner("b" * 32, "main", "c" * 40, 4242, 1.5)
GIB = 1 << 30
ROOMY = Volume("bot", 100 * GIB, 200 * GIB, 900_000, 1_000_000)
BEGINNING = Sample(
    monotonic=1000.0,
    boottime=5000.0,
    took=0.01,
    runner=RUNNER,
    cores=2.0,
    processes=(Process(4242, 5000 * TICKS, "python", 10.0, 0.0),),
    reaped=0.0,
    group_seconds=None,
    logs=(),
    volumes=(ROOMY,),
    weight=None,
    progress=Progress(),
)


class Series:
    """One agent over time."""

    def __init__(self, limits: Bounds | None = None, first: Sample = BEGINNING) -> None:
        self.limits = limits or Bounds()
        self.memory, self.found = judge(Memory(), first, self.limits)

    @property
    def last(self) -> Sample:
        assert self.memory.last
        return self.memory.last

    def look(
        self,
        seconds: float = 30.0,
        cores: float = 0.0,
        *,
        asleep: float = 0.0,
        calls: int = 0,
        tokens: int = 0,
        moves: int = 0,
        **changed: object,
    ) -> list[Finding]:
        """`seconds` later, in which the runner used `cores` processors."""
        last = self.last
        progress = last.progress and last.progress._replace(
            calls=last.progress.calls + calls,
            tokens=last.progress.tokens + tokens,
            moves=last.progress.moves + moves,
        )
        runner = last.processes[0]
        following = dataclasses.replace(
            last,
            monotonic=last.monotonic + seconds,
            boottime=last.boottime + seconds + asleep,
            took=0.01,
            processes=(runner._replace(own=runner.own + cores * seconds), *last.processes[1:]),
            progress=progress,
        )
        self.memory, self.found = judge(self.memory, dataclasses.replace(following, **changed), self.limits)  # type: ignore[arg-type]
        return self.found

    def looks(self, seconds: float, cores: float = 0.0) -> list[Finding]:
        """Looks each 30 s for so long; gives all that was found."""
        return [finding for _ in range(int(seconds // 30)) for finding in self.look(cores=cores)]


def remedies(found: list[Finding], rule: Rule) -> list[Remedy]:
    return [finding.remedy for finding in found if finding.rule is rule]


def log(size: int, name: str = "errors.log", inode: int = 7) -> Log:
    return Log(f"main/minifram/logs/{name}", (1, inode), size)


def volume(free: int, inodes_free: int = 900_000) -> Volume:
    return ROOMY._replace(free=free, inodes_free=inodes_free)


def weight(size: int, files: int = 1000, whole: bool = True) -> Weight:
    return Weight(size, files, whole)
