"""`git push` of one new commit, to its end: to the path, by the path door, and by the git daemon door."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from pathlib import Path

from bench.tables import Table, rounds, times
from tests.keep.git_door.world import Clone, Server, World

ROUNDS = 12
PATH, BY_PATH, BY_DAEMON = "to the path, no door", "by the path door", "by the git daemon door"
GOALS = {BY_PATH: 2.5, BY_DAEMON: 2.5}
SIZES = {"one file of one line": (1, 1), "200 files of 100 lines": (200, 100)}


def run(directory: Path, count: int) -> list[Table]:
    world = World(directory / "p")
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(world.close_door)
        server = Server(directory / "d")
        cleanup.callback(server.end)
        clones = {PATH: world.pm, BY_PATH: world.agent, BY_DAEMON: server.world.agent}
        tables = []
        for size, shape in SIZES.items():
            ways = {name: partial(_push, clone, name.replace(" ", "-"), shape) for name, clone in clones.items()}
            tables.append(times(f"git push of a commit of {size}", rounds(count, ways), GOALS))
    return tables


def _push(clone: Clone, branch: str, shape: tuple[int, int], number: int) -> float:
    files, lines = shape
    text = "".join(f"the quick brown fox writes line {line} of push {number}\n" for line in range(lines))
    clone.commit({f"src/{files}/{file}.txt": f"{file}\n{text}" for file in range(files)})
    began = time.perf_counter()
    clone.push(f"HEAD:refs/heads/{branch}")
    return time.perf_counter() - began
