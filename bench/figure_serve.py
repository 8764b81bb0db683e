"""`minifram serve` over a large agent, beside a bare Starlette that returns the same bytes; its jobs and its listeners.

The agent has a thousand runs, a hundred thousand events and as many calls of the model. A client keeps one connection,
as a browser does."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import psutil

from bench.tables import Table, ratio, rounds, times
from host.serve.screens import SCREENS
from tests.host.desk import Desk
from tests.host.serve.served import Served, furnish, serving
from tests.whole.test_jobs import Station

ROUNDS = 200
RUNS, EVENTS, CALLS, DAYS = 1000, 100_000, 100_000, 30
LEAST_SHARE, FIRST_BYTE_MS, SCREEN_MS, SCREEN_BYTES = 0.4, 50, 200, 60_000
JOBS, LISTENERS, LISTEN_SECONDS = 100, 100, 10.0
BARE, STATUS = "bare Starlette, the same bytes", "status by the API"
APP = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
content = sys.stdin.buffer.read()
async def same(request): return Response(content, media_type="application/json")
uvicorn.run(Starlette(routes=[Route("/", same)]), port=int(sys.argv[1]), log_level="warning")
"""


def run(directory: Path, count: int) -> list[Table]:
    desk = Desk(directory)
    desk.write_project()
    desk.done("init", "--sandbox", "process")
    furnish(desk)
    grow(desk)
    with serving(desk) as served, served.program() as client:
        tables = [_status(served, client, count), _screens(served, client), _listeners(served)]
    return [*tables, _jobs(directory / "station")]


def grow(desk: Desk) -> None:
    """What a busy agent has after a month."""
    places = desk.home().places
    runs = Path(places.bot) / "main/minifram/logs/transcripts"
    runs.mkdir(parents=True)
    for number in range(RUNS):
        at = f"2026-01-{1 + number % DAYS:02}T{number % 24:02}:00:00.000Z"
        lines: list[dict[str, object]] = [{"kind": "opened", "at": at, "directives": []}]
        lines += [{"kind": "ended", "at": at, "end": "completed", "steps": 3}]
        text = "".join(json.dumps(line | {"run_id": f"r{number}"}) + "\n" for line in lines)
        (runs / f"{at.replace(':', '')}-{number:08x}.jsonl").write_text(text)
    events = Path(places.events)
    events.mkdir(parents=True, exist_ok=True)
    event = {
        "event_type": "skill_execution",
        "context": {"task_id": "TASK-1", "intent": "x" * 40},
        "execution": {"commands": [], "exit_codes": [0], "duration_ms": 1},
        "outcomes": {"observations": "y" * 60},
        "metadata": {"tool": "bash", "status": "ok"},
    }
    for day in range(DAYS):
        stamp = f"2026-01-{1 + day:02}"
        line = json.dumps(event | {"timestamp": f"{stamp}T10:00:00.000Z", "run_id": "r1", "step_id": "1.1", "seq": 1})
        (events / f"{stamp}.jsonl").write_text(f"{line}\n" * (EVENTS // DAYS))
    call: dict[str, object] = {
        "event": "settled",
        "provider": "p",
        "model": "m",
        "usd": 0.001,
        "duration_ms": 5,
        "input_tokens": 9,
    }
    call |= {"output_tokens": 9, "cache_write_tokens": 0, "cache_read_tokens": 0}
    with open(places.ledger, "w", encoding="utf-8") as file:
        for number in range(CALLS):
            stamp = f"2026-01-{1 + number * DAYS // CALLS:02}"
            same = {"time": f"{stamp}T10:00:00.000Z", "day": stamp, "id": f"{number}", "run": f"r{number % RUNS}"}
            file.write(json.dumps(call | same) + "\n")


def _status(served: Served, client: httpx2.Client, count: int) -> Table:
    content = client.get("/api/v1/agents/agent/status").content
    with _bare(content) as address, httpx2.Client() as plain:
        ways: dict[str, Callable[[int], float]] = {
            BARE: _timed(lambda: plain.get(address)),
            STATUS: _timed(lambda: client.get("/api/v1/agents/agent/status")),
        }
        took = rounds(count, ways, warm=20)
    share = 1 / ratio(took[STATUS], took[BARE])
    word = "met" if share >= LEAST_SHARE else "MISSED"
    return times(
        "status", took, f"{share:.2f}x of the bare one's requests a second; goal at least {LEAST_SHARE}x: {word}"
    )


@contextlib.contextmanager
def _bare(content: bytes) -> Iterator[str]:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", APP, str(port)], stdin=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(content)
        process.stdin.close()
        address = f"http://127.0.0.1:{port}/"
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx2.TransportError):
                httpx2.get(address)
                break
        yield address
        process.terminate()


def _screens(served: Served, client: httpx2.Client) -> Table:
    """Each as a person opens it: when something has changed since it was made, and once more when nothing has."""
    process = psutil.Process(served.process.pid)
    rows, before = [], 0.0
    for number in range(3):
        for path in [f"/a/agent/{name}" for name in SCREENS]:
            served.desk.report(f"main@0123abc done: {path} {number}", "It is there.")
            Path(served.desk.home().places.ledger).open("a").close()
            fresh, first, size = _opened(client, path)
            kept, _, _ = _opened(client, path)
            if number:
                goals = fresh < SCREEN_MS and size < SCREEN_BYTES and (path != "/a/agent/now" or first < FIRST_BYTE_MS)
                word = "met" if goals else "MISSED"
                rows.append((path, f"{fresh:.0f}", f"{kept:.0f}", f"{first:.0f}", f"{size / 1000:.1f}", word))
        before = before or process.memory_info().rss
    grown = (process.memory_info().rss - before) / 2**20
    notes = (
        f"goals: {SCREEN_MS} ms, {SCREEN_BYTES // 1000} kB, first byte of now {FIRST_BYTE_MS} ms",
        f"memory {process.memory_info().rss / 2**20:.0f} MiB, {grown:+.1f} MiB over the last two rounds",
    )
    title = f"screens, {RUNS:,} runs, {EVENTS:,} events, {CALLS:,} calls"
    return Table(
        title, ("", "changed ms", "unchanged ms", "first byte ms", "kB", "goals"), rows[-len(SCREENS) :], notes
    )


def _opened(client: httpx2.Client, path: str) -> tuple[float, float, int]:
    """Milliseconds until the end and until the first byte, and bytes."""
    began = time.perf_counter()
    with client.stream("GET", path) as answer:
        first = time.perf_counter() - began
        size = len(answer.read())
    assert answer.status_code == 200, path
    return (time.perf_counter() - began) * 1000, first * 1000, size


def _listeners(served: Served) -> Table:
    process = psutil.Process(served.process.pid)
    before, heard = process.memory_info().rss, [0] * LISTENERS

    def listen(number: int) -> None:
        with served.program() as client, client.stream("GET", "/api/v1/agents/agent/events") as stream:
            for line in stream.iter_lines():
                heard[number] += line.startswith("event: changed")
                if time.monotonic() > until:
                    return

    until = time.monotonic() + LISTEN_SECONDS
    threads = [threading.Thread(target=listen, args=(number,), daemon=True) for number in range(LISTENERS)]
    cpu = sum(process.cpu_times()[:2])
    for thread in threads:
        thread.start()
    changes = 0
    while time.monotonic() < until + 2:
        served.desk.report(f"main@0123abc done: change {changes}", "It is there.")
        changes += 1
        time.sleep(1)
    grown = (process.memory_info().rss - before) / 2**20
    busy = sum(process.cpu_times()[:2]) - cpu
    row = (str(LISTENERS), f"{statistics.median(heard):.0f} of {changes}", f"{grown:.1f}", f"{busy:.2f}")
    return Table("listeners on the stream", ("", "changes heard", "MiB", "processor s"), [row])


def _jobs(directory: Path) -> Table:
    """From the request to the line of the trace that the first step began."""
    directory.mkdir()
    station, took = Station(directory, "http://127.0.0.1:9"), []
    try:
        for _ in range(JOBS):
            began = time.perf_counter()
            id = station.submit("write a file")
            while not station.job(id)["trace"]:
                time.sleep(0.002)
            took.append((time.perf_counter() - began) * 1000)
            station.ended(id)
    finally:
        station.end()
        station.owner.close()
    p99 = sorted(took)[int(0.99 * (len(took) - 1))]
    row = (f"{JOBS} jobs, one after the other", f"{statistics.median(took):.0f}", f"{p99:.0f}")
    return Table("a job, from its submission to its first step", ("", "p50 ms", "p99 ms"), [row])


def _timed(ask: Callable[[], httpx2.Response]) -> Callable[[int], float]:
    def measure(number: int) -> float:
        began = time.perf_counter()
        assert ask().status_code == 200
        return time.perf_counter() - began

    return measure
