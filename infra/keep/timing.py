"""Constants of the keep that no PM has to judge, as one value: tests hand the watcher another (`Zones.timing`)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from infra.keep.limits.judge import Bounds
from infra.keep.settings.schema import Settings, runner_limits
from infra.shared.boot import Limits

USUAL = Limits(0.0, 0, 0.0)
"""For the runner's own defaults."""


class Timing(NamedTuple):
    check_seconds: float = 600.0
    """How often the watcher checks that a runner is in the process table."""
    poll_seconds: float = 1.0
    """How often signals and refs are looked at when no file event arrives."""
    boot_seconds: float = 60.0
    """A runner that has not reported SUCCESS within this time is stopped; most take a second, on a busy machine ten."""
    probation_seconds: float = 600.0
    """A version that has run this long is known good."""
    hops: int = 6
    """How often within ten minutes a branch may be launched while main does not change: more is two that take turns."""
    make_way_seconds: float = 300.0
    """When main changes, the runner makes way for it within this time, or it is stopped."""
    grace_seconds: float = 10.0
    """Between SIGTERM and SIGKILL, as podman and docker have it."""
    rehearse: bool = True
    rehearsal_seconds: float = 60.0
    """For the small life of a version; most take three."""
    install_seconds: float = 600.0
    """Of the installation of a branch's requirements: a large wheel over a slow line."""
    validation_seconds: float = USUAL.validation_seconds
    work_seconds: float = USUAL.work_seconds
    door_seconds: float = USUAL.door_seconds
    bounds: Bounds = Bounds()

    def bounds_of(self, settings: Settings) -> Bounds:
        """What the judge goes by."""
        limits = settings.limits
        return self.bounds._replace(
            log_bytes=limits.log_bytes, bash_seconds=limits.bash_seconds, validation_seconds=self.validation_seconds
        )

    def limits_of(self, settings: Settings) -> Limits:
        """What the runner is told."""
        return msgspec.structs.replace(
            runner_limits(settings),
            validation_seconds=self.validation_seconds,
            work_seconds=self.work_seconds,
            door_seconds=self.door_seconds,
        )
