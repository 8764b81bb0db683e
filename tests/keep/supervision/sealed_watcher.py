"""A watcher whose seal is played: it cannot be proved while a file in the agent's directory is there.

Run as a program, with a watcher's words."""

from __future__ import annotations

import os
import sys

from infra.watcher import watch
from tests.keep.supervision.timed_watcher import timed_zones

UNSEALED = "unsealed"


def main(argv: list[str]) -> int:
    zones = timed_zones(argv)
    path = f"{zones.places.bot}/{UNSEALED}"
    return watch(zones._replace(proof=lambda: "the rules are gone" if os.path.exists(path) else ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
