"""`minifram serve` over a large agent: its API beside a bare Starlette that returns the same bytes, how long each of
its pages takes, its listeners and jobs; and the live picture of the real browser.

The agent has a thousand runs, a hundred thousand events and as many calls of the model. A client keeps one connection,
as a browser does."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil

from bench.tables import Table, Way, rounds, timed, times
from host.serve.screens import SCREENS
from tests.host.desk import Desk
from tests.host.serve.served import Served, furnish, serving
from tests.whole.test_eye import Seeing, seeing
from tests.whole.test_jobs import Station

ROUNDS = 10
RUNS, EVENTS, CALLS, DAYS = 1000, 100_000, 100_000, 30
BARE, STATUS, API = "bare Starlette, the same bytes", "status by the API", "/api/v1/agents/agent"
MOST_TIMES = 2.5
"""At least 0.4 of a bare one's requests a second."""
SCREEN_MS, FIRST_BYTE_MS, SCREEN_KB = 200, 50, 60
JOBS, LISTENERS, LISTEN_SECONDS = 100, 100, 10.0
VIEWERS, LEAST_FRAMES, MOST_FRAMES = (1, 10), 5, 10
APP = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
content = sys.stdin.buffer.read()
async def same(request): return Response(content, media_type="application/json")
uvicorn.run(Starlette(routes=[Route("/", same)]), fd=int(sys.argv[1]), log_level="warning")
"""


def run(directory: Path, count: int) -> list[Table]:
    desk = Desk(directory)
    desk.write_project()
    desk.done("init", "--sandbox", "process")
    furnish(desk)
    grow(desk)
    with serving(desk) as served:
        tables = [_status(served, 10 * count), _screens(served, count), _listeners(served)]
    for each in ("seeing", "station"):
        (directory / each).mkdir()
    tables.append(_jobs(directory / "station"))
    head = ("viewers", "frames/s", "of the slowest", "fewest frames", "processor", "MiB more", "goal")
    with seeing(directory / "seeing") as station:
        station.tool("fetch_page", "/moving", render=True)  # the browser is warm
        return [*tables, Table("the live picture", head, [_watched(station, viewers) for viewers in VIEWERS])]


def grow(desk: Desk) -> None:
    """What a busy agent has after a month."""
    places, days = desk.home().places, [f"2026-01-{1 + day:02}" for day in range(DAYS)]
    runs, events = Path(places.bot, "main/minifram/logs/transcripts"), Path(places.events)
    for folder in (runs, events):
        folder.mkdir(parents=True, exist_ok=True)
    for number in range(RUNS):
        begun = {"run_id": f"r{number}", "at": f"{days[number % DAYS]}T{number % 24:02}:00:00.000Z"}
        lines = begun | {"kind": "opened", "directives": []}, begun | {"kind": "ended", "end": "completed", "steps": 3}
        name = f"{begun['at'].replace(':', '')}-{number:08x}.jsonl"
        (runs / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    event = {
        "event_type": "skill_execution",
        "context": {"task_id": "TASK-1", "intent": "x" * 40},
        "execution": {"commands": [], "exit_codes": [0], "duration_ms": 1},
        "outcomes": {"observations": "y" * 60},
        "metadata": {"tool": "bash", "status": "ok"},
    }
    counts = dict.fromkeys(("input_tokens", "output_tokens", "cache_write_tokens", "cache_read_tokens"), 9)
    call = {"event": "settled", "provider": "p", "model": "m", "usd": 0.001, "duration_ms": 5} | counts
    with open(places.ledger, "w", encoding="utf-8") as ledger:
        for day in days:
            at = f"{day}T10:00:00.000Z"
            line = json.dumps(event | {"timestamp": at, "run_id": "r1", "step_id": "1.1", "seq": 1})
            (events / f"{day}.jsonl").write_text(f"{line}\n" * (EVENTS // DAYS))
            for number in range(CALLS // DAYS):
                same = {"time": at, "day": day, "id": f"{day}.{number}", "run": f"r{number % RUNS}"}
                ledger.write(json.dumps(call | same) + "\n")


def _status(served: Served, count: int) -> Table:
    with served.program() as client:
        content = client.get(f"{API}/status").raise_for_status().content
        with _bare(content) as address, served.program() as plain:
            ways = {BARE: timed(plain.get, address), STATUS: timed(client.get, f"{API}/status")}
            return times("status", rounds(count, ways, warm=20), {STATUS: MOST_TIMES})


@contextlib.contextmanager
def _bare(content: bytes) -> Iterator[str]:
    """Its socket listens already, so whoever asks first waits for its start."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer waits 40 ms for more
        words = [sys.executable, "-c", APP, str(listening.fileno())]
        with subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=[listening.fileno()]) as process:
            assert process.stdin
            process.stdin.write(content)
            process.stdin.close()
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
            process.terminate()


def _screens(served: Served, count: int) -> Table:
    """Each as a person opens it when something has changed since it was made."""
    firsts, sizes = list[float](), list[int]()
    with served.program() as client:

        def opened(name: str, number: int) -> float:
            served.desk.report(f"main@0123abc done: {name} {number}", "It is there.")
            began = time.perf_counter()
            with client.stream("GET", f"/a/agent/{name}") as answer:
                firsts.extend([time.perf_counter() - began] if name == "now" else [])
                sizes.append(len(answer.raise_for_status().read()))
            return time.perf_counter() - began

        screens: dict[str, Way] = {name: partial(opened, name) for name in SCREENS}
        took = rounds(count, screens)
    slowest = 1000 * max(statistics.median(took[name]) for name in screens)
    first, size = 1000 * statistics.median(firsts), max(sizes) / 1000
    is_met = slowest < SCREEN_MS and first < FIRST_BYTE_MS and size < SCREEN_KB
    notes = (
        f"the slowest {slowest:.0f} ms, the first byte of now {first:.0f} ms, the largest {size:.0f} kB",
        f"goals: {SCREEN_MS} ms, {FIRST_BYTE_MS} ms, {SCREEN_KB} kB: {'met' if is_met else 'MISSED'}",
    )
    return times(f"screens, {RUNS:,} runs, {EVENTS:,} events, {CALLS:,} calls", took, {}, *notes)


def _listeners(served: Served) -> Table:
    """Of the stream of changes, of which there is one a second."""
    heard, until, changes = [0] * LISTENERS, time.monotonic() + LISTEN_SECONDS, 0
    used = _use(served.process.pid)

    def listen(number: int) -> None:
        with served.program() as client, client.stream("GET", f"{API}/events") as stream:
            for line in stream.iter_lines():
                heard[number] += line.startswith("event: changed")
                if time.monotonic() > until:
                    return

    for number in range(LISTENERS):
        threading.Thread(target=listen, args=(number,), daemon=True).start()
    while time.monotonic() < until:
        served.desk.report(f"main@0123abc done: change {changes}", "It is there.")
        changes += 1
        time.sleep(1)
    row = (str(LISTENERS), f"{statistics.median(heard):.0f} of {changes}", *used())
    return Table("listeners on the stream", ("", "changes heard", "processor", "MiB more"), [row])


def _use(pid: int) -> Callable[[], tuple[str, str]]:
    """Of a process from now on: milliseconds of processor a second, and MiB more than now."""
    process, began = psutil.Process(pid), time.monotonic()
    memory, busy = process.memory_info().rss, sum(process.cpu_times()[:2])

    def so_far() -> tuple[str, str]:
        rate = (sum(process.cpu_times()[:2]) - busy) / (time.monotonic() - began)
        return f"{1000 * rate:.0f} ms/s", f"{(process.memory_info().rss - memory) / 2**20:+.1f}"

    return so_far


def _jobs(directory: Path) -> Table:
    """From the request to the line of the trace that the first step began."""
    station, took = Station(directory, "http://127.0.0.1:9"), list[float]()
    with contextlib.closing(station.owner), contextlib.ExitStack() as cleanup:
        cleanup.callback(station.end)
        for _ in range(JOBS):
            began = time.perf_counter()
            id = station.submit("write a file")
            while not station.job(id)["trace"]:
                time.sleep(0.002)
            took.append(1000 * (time.perf_counter() - began))
            station.ended(id)
    shown = (f"{part:.0f}" for part in (statistics.median(took), statistics.quantiles(took, n=100)[98]))
    return Table("a job, from its submission to its first step", ("", "p50 ms", "p99 ms"), [(f"{JOBS} jobs", *shown)])


def _watched(station: Seeing, viewers: int) -> tuple[str, ...]:
    """A page that moves, to so many."""
    came: list[list[float]] = [[] for _ in range(viewers)]
    used = _use(station.process.pid)

    def watch(times: list[float]) -> None:
        with station.viewer() as watching, contextlib.suppress(TimeoutError):
            for _ in watching.frames():
                times.append(time.monotonic())

    for each in came:
        threading.Thread(target=watch, args=(each,), daemon=True).start()
    station.tool("fetch_page", "/moving", render=True)
    rates = sorted(1 / statistics.median(b - a for a, b in itertools.pairwise(times)) for times in came)
    is_met = rates[0] >= LEAST_FRAMES and rates[-1] <= MOST_FRAMES
    goal = f"{LEAST_FRAMES} to {MOST_FRAMES}: {'met' if is_met else 'MISSED'}"
    return str(viewers), f"{rates[-1]:.1f}", f"{rates[0]:.1f}", str(min(map(len, came))), *used(), goal
