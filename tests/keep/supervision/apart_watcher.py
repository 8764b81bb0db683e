"""A watcher whose examiner is a user of its own, as in the container; for a test that root runs.

Run as a program, with a watcher's words."""

from __future__ import annotations

import sys

from infra.keep.supervision.zones import plain_directories
from infra.shared import arguments
from infra.shared.identity import Identity
from infra.watcher import watch

EXAMINER = Identity(65534, 65534)


def main(argv: list[str]) -> int:
    given = arguments.parser("watcher", "A watcher with an examiner apart.").parse_args(argv)
    places = arguments.places(given)
    return watch(plain_directories(given.settings, places)._replace(examiner=EXAMINER, scratch=f"{places.run}/scratch"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
