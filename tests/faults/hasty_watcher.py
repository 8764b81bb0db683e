"""The watcher with another pace: a runner that serves is asked every half second, not every half minute.

Run as a program, with a watcher's words."""

from __future__ import annotations

import sys

from infra.keep.supervision.health import Pace
from infra.watcher import watch
from tests.keep.supervision.timed_watcher import timed_zones

PROGRAM = "tests.faults.hasty_watcher"
PACE = Pace(beat=0.5, doors=2.0, again=3.0, patience=1.5)
"""Between two odd answers there is time to become well again, on a busy machine as well."""


if __name__ == "__main__":
    sys.exit(watch(timed_zones(sys.argv[1:])._replace(pace=PACE)))
