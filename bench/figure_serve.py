"""`minifram serve` over a large agent: how long each of its pages takes; and the live picture of the real browser.

The agent has a thousand runs, a hundred thousand events and as many calls of the model. A client keeps one connection,
as a browser does."""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
import threading
import time
from functools import partial
from pathlib import Path

from bench.tables import Table, Way, rounds, timed, times
from host.serve.screens import SCREENS
from tests.host.desk import Desk
from tests.host.serve.served import Served, furnish, serving
from tests.whole.test_eye import Seeing, seeing

ROUNDS = 10
RUNS, EVENTS, CALLS, DAYS = 1000, 100_000, 100_000, 30
STATUS, API = "status by the API", "/api/v1/agents/agent/status"
SCREEN_MS, FIRST_BYTE_MS, SCREEN_KB = 200, 50, 60
VIEWERS, LEAST_FRAMES, MOST_FRAMES = (1, 10), 5, 10


def run(directory: Path, count: int) -> list[Table]:
    desk = Desk(directory)
    desk.write_project()
    desk.done("init", "--sandbox", "process")
    furnish(desk)
    grow(desk)
    with serving(desk) as served:
        screens = _screens(served, count)
    (directory / "seeing").mkdir()
    head = ("viewers", "frames/s", "of the slowest", "fewest frames", "goal")
    with seeing(directory / "seeing") as station:
        station.tool("fetch_page", "/moving", render=True)  # the browser is warm
        return [screens, Table("the live picture", head, [_watched(station, viewers) for viewers in VIEWERS])]


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


def _screens(served: Served, count: int) -> Table:
    """Each as a person opens it when something has changed since it was made, beside an answer to a program."""
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
        took = rounds(count, {STATUS: timed(client.get, API)} | screens)
    slowest = 1000 * max(statistics.median(took[name]) for name in screens)
    first, size = 1000 * statistics.median(firsts), max(sizes) / 1000
    is_met = slowest < SCREEN_MS and first < FIRST_BYTE_MS and size < SCREEN_KB
    notes = (
        f"the slowest {slowest:.0f} ms, the first byte of now {first:.0f} ms, the largest {size:.0f} kB",
        f"goals: {SCREEN_MS} ms, {FIRST_BYTE_MS} ms, {SCREEN_KB} kB: {'met' if is_met else 'MISSED'}",
    )
    return times(f"screens, {RUNS:,} runs, {EVENTS:,} events, {CALLS:,} calls", took, {}, *notes)


def _watched(station: Seeing, viewers: int) -> tuple[str, ...]:
    """A page that moves, to so many."""
    came: list[list[float]] = [[] for _ in range(viewers)]

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
    return str(viewers), f"{rates[-1]:.1f}", f"{rates[0]:.1f}", str(min(map(len, came))), goal
