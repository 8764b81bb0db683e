"""A watcher whose examiner is a user of its own, as in the container; for a test that root runs.

Run as a program, with a watcher's words."""

from __future__ import annotations

import sys

from infra.shared.identity import Identity
from infra.watcher import watch
from tests.keep.supervision.timed_watcher import timed_zones

EXAMINER = Identity(65534, 65534)


def main(argv: list[str]) -> int:
    zones = timed_zones(argv)
    return watch(zones._replace(examiner=EXAMINER, scratch=(f"{zones.places.run}/scratch",)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
