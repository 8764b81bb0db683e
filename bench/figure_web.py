"""A page through the web door beside plain httpx2, of a site on loopback.

httpx2 fetches bytes alone; the door judges, asks for robots.txt once, fetches, reads, frames, and writes a line before
it answers. Text shows the door's own share, HTML also that of reading. An agent's pages are a model's answer apart, in
which the door starts the process that reads the next one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2

from bench.tables import Table, rounds, timed, times
from infra.cell.doors import Web
from infra.shared.web import Fetch, Page
from tests.keep.web_door.test_life import World

ROUNDS = 20
GOAL = 1.5
PAUSE = 0.5
"""Seconds before each request, which are not measured."""
BARE, DOOR = "httpx2.get", "through the door"
TEXT = "".join(f"Line {number} of a text with some words in it.\n" for number in range(4200))
HTML = "<title>Lines</title>" + "".join(
    f"<h2>Part</h2><p>{line} <a href=/x>more</a>" for line in TEXT.splitlines()[:1300]
)
FILES = {"small.txt": TEXT[:5000], "large.txt": TEXT, "page.html": HTML}


def run(directory: Path, count: int) -> list[Table]:
    tables = []
    with _site(directory / "site") as address, contextlib.ExitStack() as cleanup:
        world = World(directory, address)
        world.begin()
        cleanup.callback(world.end)
        web = Web(world.places.web_socket)
        for name, text in FILES.items():
            asked = partial(web.ask, Fetch(f"{address}/{name}"), Page)
            ways = {BARE: timed(httpx2.get, f"{address}/{name}", pause=PAUSE), DOOR: timed(asked, pause=PAUSE)}
            took = rounds(count, ways, warm=5)
            tables.append(times(f"{name}, {len(text) / 1000:.0f} kB", took, {DOOR: GOAL}))
    return tables


@contextlib.contextmanager
def _site(directory: Path) -> Iterator[str]:
    directory.mkdir()
    for name, text in FILES.items():
        (directory / name).write_text(text)
    words = [sys.executable, "-I", "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]
    nothing = subprocess.DEVNULL
    with subprocess.Popen(words, cwd=directory, stdout=subprocess.PIPE, stderr=nothing, text=True) as site:
        assert site.stdout
        try:
            yield "http://127.0.0.1:" + site.stdout.readline().split(" port ")[1].split()[0]
        finally:
            site.kill()
