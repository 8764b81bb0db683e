"""Try every way out of the cell, and print what came of each as JSON: `[{"id", "attempt", "result"}, …]`.

python3.11 -m inside.attempts --keep 1 --keep 7     as the agent, against these processes of the keep
python3.11 -m inside.attempts --open                as root of a container without fences: the positive control
python3.11 -m inside.attempts --only S06 S08        these lines alone
"""

from __future__ import annotations

import argparse
import json
import sys

from . import on_files, on_kernel, on_network, on_processes, on_rights
from .calls import Attempt, World, answer


def attempts() -> list[Attempt]:
    """All attempts, in the order of their lines. What is done in place comes first: it must find things untouched."""
    parts = (on_processes, on_files, on_rights, on_kernel, on_network)
    all_of_them = [attempt for part in parts for attempt in part.ATTEMPTS.all]
    return sorted(all_of_them, key=lambda attempt: (not attempt.in_place, attempt.line))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=int, action="append", default=[], metavar="PID")
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--only", nargs="*", default=[], metavar="LINE")
    words = parser.parse_args()
    world = World(tuple(words.keep), words.open)
    rows = [
        {"id": attempt.line, "attempt": attempt.what, "result": answer(attempt, world)}
        for attempt in attempts()
        if not words.only or attempt.line in words.only
    ]
    json.dump(rows, sys.stdout)


if __name__ == "__main__":
    main()
