"""A watcher whose seal is played: it cannot be proved while a file of the cell's, or one of the machine's, says why.

Run as a program, with a watcher's words."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from infra.keep.services import processes
from infra.watcher import watch
from tests.keep.supervision.timed_watcher import timed_zones

FROM_WITHIN, FROM_WITHOUT = "in-the-way", "unsealed"
"""Names in the agent's directory: the pid of who keeps the proof from being made, or a reason that no process has."""


def main(argv: list[str]) -> int:
    zones = timed_zones(argv)
    bot = zones.places.bot

    def proof() -> str:
        if os.path.exists(f"{bot}/{FROM_WITHOUT}"):
            return "the rules are gone"
        try:
            pid = int(Path(bot, FROM_WITHIN).read_text())
        except FileNotFoundError:
            return ""
        return "no port is left" if processes.start_time(pid) else ""

    return watch(zones._replace(proof=proof, proof_seconds=0.1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
