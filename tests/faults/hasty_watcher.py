"""The watcher with another pace: a runner that serves is asked every half second, not every half minute.

Run as a program, with a watcher's words."""

from __future__ import annotations

import sys

from infra.keep.supervision.health import Pace
from infra.keep.supervision.zones import plain_directories
from infra.shared import arguments
from infra.watcher import watch

PROGRAM = "tests.faults.hasty_watcher"
PACE = Pace(beat=0.5, doors=2.0, again=3.0, patience=1.5)
"""Between two odd answers there is time to become well again, on a busy machine as well."""


def main(argv: list[str]) -> int:
    given = arguments.parser("watcher", "A watcher that asks often.").parse_args(argv)
    return watch(plain_directories(given.settings, arguments.places(given))._replace(pace=PACE))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
