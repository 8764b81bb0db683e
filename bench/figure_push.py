"""`git push` of one new commit, to its end: to the path, by the path door, and by the git daemon door."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from bench.tables import Table, goal, ratio, rounds, times
from tests.keep.git_door.world import Server, World

ROUNDS = 12
GOAL = 2.5
PATH, BY_PATH, BY_DAEMON = "to the path, no door", "by the path door", "by the git daemon door"
SIZES = {"one file of one line": (1, 1), "200 files of 100 lines": (200, 100)}


def run(directory: Path, count: int) -> list[Table]:
    world = World(directory / "p")
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(world.close_door)
        server = Server(directory / "d")
        cleanup.callback(server.end)
        clones = {PATH: world.pm, BY_PATH: world.agent, BY_DAEMON: server.world.agent}

        def way(name: str, files: int, lines: int) -> Callable[[int], float]:
            def measure(number: int) -> float:
                clone = clones[name]
                text = [f"the quick brown fox writes line {line} of push {number}\n" for line in range(lines)]
                clone.commit({f"src/{files}/{file}.txt": f"{file}\n" + "".join(text) for file in range(files)})
                began = time.perf_counter()
                clone.push(f"HEAD:refs/heads/{name.replace(' ', '-')}")
                return time.perf_counter() - began

            return measure

        tables = []
        for size, (files, lines) in SIZES.items():
            took = rounds(count, {name: way(name, files, lines) for name in clones})
            reached = [goal(name, ratio(took[name], took[PATH]), GOAL) for name in (BY_PATH, BY_DAEMON)]
            tables.append(times(f"git push of a commit of {size}", took, *reached))
    return tables
