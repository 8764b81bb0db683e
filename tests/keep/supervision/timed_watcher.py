"""The watcher with a timing of the test's own: a section `timing` of its settings, or a file `*.timing` beside them.

Beside the names of `Timing` and `bounds` it may hold `also`, more environment for the cell; `quick`, doors that nobody
asks anything; `unsealed`, a file that keeps the seal from being proved; `apart`, for a test that root runs: an examiner
with a user of its own, as in the container. Run as a program, with a watcher's words."""

from __future__ import annotations

import os
import sys
from typing import Any

import yaml

from infra.keep import arguments
from infra.keep.limits.judge import Bounds
from infra.keep.supervision.zones import Zones, plain_directories
from infra.keep.timing import Timing
from infra.shared.identity import OURS, Identity
from infra.watcher import watch

PROGRAM = "tests.keep.supervision.timed_watcher"
OF_THE_PM = ".of-the-pm"
"""Beside the settings: the same file without the timing, which the keep's programs read."""
EXAMINER = Identity(65534, 65534)
QUICK_DOOR = """
import os, socket, sys, time
if os.path.exists(sys.argv[1]):
    os.unlink(sys.argv[1])
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
while True:
    os.write(int(os.environ["MINIFRAM_HEART"]), b'{"doing":"serving","within":80000}')
    time.sleep(1)
"""
"""It listens and is alive, in a tenth of the time that a door takes to come up."""


def timed_zones(argv: list[str]) -> Zones:
    """Those of the process sandbox; the keep's programs get a file without that section."""
    given = arguments.parser("watcher", "A watcher with another timing.").parse_args(argv)
    with open(given.settings, encoding="utf-8") as file:
        settings: dict[str, Any] = yaml.safe_load(file) or {}
    timing = settings.pop("timing", {})
    if os.path.exists(f"{given.settings}.timing"):
        with open(f"{given.settings}.timing", encoding="utf-8") as file:
            timing = yaml.safe_load(file)
    also, unsealed, apart = timing.pop("also", {}), timing.pop("unsealed", ""), timing.pop("apart", False)
    bounds, quick = Bounds(**timing.pop("bounds", {})), timing.pop("quick", False)
    path = f"{given.settings}{OF_THE_PM}"
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(settings, file)
    places = arguments.places(given)
    zones = plain_directories(path, places)
    for each in zones.services:
        if quick and each.socket:
            each.command = [sys.executable, "-I", "-S", "-c", QUICK_DOOR, each.socket]
    return zones._replace(
        also=also,
        timing=Timing(**timing, bounds=bounds),
        proof=lambda: "the rules are gone" if os.path.exists(unsealed) else "",
        examiner=EXAMINER if apart else OURS,
        scratch=(f"{places.run}/scratch",) if apart else (),
    )


if __name__ == "__main__":
    sys.exit(watch(timed_zones(sys.argv[1:])))
