"""A page through the web door beside plain httpx2 for the same page of a site on loopback, and what the door's memory
comes to after ten thousand pages.

Plain httpx2 is `httpx2.get`, and beside it a client that is kept, which has its certificates read already, as the door
has. Both fetch bytes alone: the door judges, asks for robots.txt once, fetches, reads in its worker, frames, and syncs
a line before it answers. Text shows the door's own share, HTML also that of reading."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import psutil
import structlog

from bench.pages import PAGES
from bench.scene import places_in, within
from bench.stamps import progress
from bench.tables import TIMES_HEAD, Figure, Table, Verdict, at_most, milliseconds, spread, times, times_row
from infra.cell.web_client import fetch
from infra.keep.services.services import Services, doors
from infra.shared.paths import Paths
from infra.shared.web import FetchRequest

ROUNDS = 100
MANY = 10_000
WAIT_SECONDS = 30.0
KEPT, ONCE, DOOR = "a client that is kept", "httpx2.get", "through the door"
RATIO, NEAR_SECONDS, GROWN_MIB = 1.5, 0.010, 50.0
SETTINGS = "policy: {rules: [{do: allow, domains: [127.0.0.1]}]}\nbudget: {daily_usd: 1}\n"


def run(directory: Path, rounds: int | None) -> Figure:
    with site() as address, door(directory) as (places, pid):
        figure = _beside(address, places, rounds or ROUNDS)
        grown = _memory(address, places, pid, MANY if rounds is None else 10 * rounds)
    return Figure((*figure.tables, *grown.tables), (*figure.verdicts, *grown.verdicts))


def _beside(address: str, places: Paths, rounds: int) -> Figure:
    tables, verdicts = [], []
    with httpx2.Client(trust_env=False, limits=httpx2.Limits(max_keepalive_connections=0)) as client:
        for what, path in (("text, 5 kB", "/small.txt"), ("text, 184 kB", "/large.txt"), ("HTML, 100 kB", "/html")):
            url = address + path
            kept, once, ours = _in_turn(
                f"web: {what}",
                rounds,
                functools.partial(client.get, url),
                functools.partial(httpx2.get, url),
                functools.partial(fetch, places.web_socket, FetchRequest(url)),
            )
            rows = (times_row(KEPT, kept), times_row(ONCE, once, kept), times_row(DOOR, ours, kept))
            tables.append(Table(f"One page ({what}), asked for and read", TIMES_HEAD, rows))
            verdicts += [at_most(f"web: {what}", ours, ONCE, once, RATIO), _near(what, ours, kept)]
    return Figure(tuple(tables), tuple(verdicts))


def _near(what: str, ours: list[float], kept: list[float]) -> Verdict:
    more, ratio = spread(ours).median - spread(kept).median, spread(ours).median / spread(kept).median
    met = more <= NEAR_SECONDS
    words = f"web: {what}: {milliseconds(more)} ms more than {KEPT}, {times(ratio)} of it; goal at most"
    return Verdict(met, f"{words} {NEAR_SECONDS * 1000:g} ms more: {'met' if met else 'MISSED'}")


def _in_turn(what: str, rounds: int, *acts: Callable[[], object]) -> list[list[float]]:
    """One after the other, so that all meet the same machine; the first ones warm up and do not count."""
    took: list[list[float]] = [[] for _ in acts]
    for number in range(rounds + 5):
        progress(what, f"{number} of {rounds}")
        for act, into in zip(acts, took, strict=True):
            began = time.perf_counter()
            act()
            if number >= 5:
                into.append(time.perf_counter() - began)
    return took


def _memory(address: str, places: Paths, pid: int, many: int) -> Figure:
    """Resident, of the door and its worker, after the first hundred and after all of them."""
    seen: list[tuple[int, float, float]] = []
    for number in range(1, many + 1):
        fetch(places.web_socket, FetchRequest(f"{address}/html?{number}"))
        if number in (100, many // 2, many):
            seen.append((number, *_resident(pid)))
            progress("web: memory", f"{number} of {many}")
    rows = tuple((f"{number:,} pages", f"{door:.1f}", f"{worker:.1f}") for number, door, worker in seen)
    grown = seen[-1][1] - seen[0][1]
    met = grown <= GROWN_MIB
    words = (
        f"web: the door grew by {grown:.1f} MiB from page {seen[0][0]:,} to page {many:,} (to {seen[-1][1]:.1f} MiB)"
    )
    verdict = Verdict(met, f"{words}; goal at most {GROWN_MIB:g}: {'met' if met else 'MISSED'}")
    return Figure((Table("Memory after pages, in MiB", ("", "door", "worker"), rows),), (verdict,))


def _resident(pid: int) -> tuple[float, float]:
    process = psutil.Process(pid)
    workers = sum(child.memory_info().rss for child in process.children())
    return process.memory_info().rss / 2**20, workers / 2**20


@contextlib.contextmanager
def site() -> Iterator[str]:
    """Its address; it answers from memory, in a thread of its own."""
    large = "\n".join(f"Line {number} of a text with some words in it." for number in range(4200))
    bodies = {
        "/small.txt": ("text/plain", large[:5000].encode()),
        "/large.txt": ("text/plain", large.encode()),
        "/html": ("text/html", max((page.html for page in PAGES), key=len).encode()),
    }

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode().partition("?")[0]
            kind, body = bodies.get(path, ("text/plain", b""))
            status = "200 OK" if body else "404 Not Found"
            head = (
                f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()

    loop, ready, ports = asyncio.new_event_loop(), threading.Event(), list[int]()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        async with server:
            with contextlib.suppress(asyncio.CancelledError):
                await server.serve_forever()

    task = loop.create_task(serve())
    thread = threading.Thread(target=lambda: loop.run_until_complete(task))
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()


@contextlib.contextmanager
def door(directory: Path) -> Iterator[tuple[Paths, int]]:
    """The web door as the watcher has it, and its process, which has answered."""
    places, settings = places_in(directory), directory / "minifram.yaml"
    settings.write_text(SETTINGS)
    service = doors(str(settings), places)[2]
    with (directory / "events").open("w") as events:
        log = structlog.wrap_logger(structlog.PrintLogger(events))
        services = Services([service], places, 20 << 20, log)
        over = threading.Event()

        def tend() -> None:
            while not over.wait(0.02):
                services.tend(time.monotonic())

        thread = threading.Thread(target=tend)
        services.tend(time.monotonic())
        thread.start()
        try:
            with contextlib.suppress(Exception):  # refused, and so it is there
                fetch(places.web_socket, FetchRequest("http://10.0.0.1/"))
            process = within(WAIT_SECONDS, lambda: service.process, "the web door")
            yield places, process.pid
        finally:
            over.set()
            thread.join()
            services.end(5.0)
