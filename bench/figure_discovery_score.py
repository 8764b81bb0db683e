"""How long the scorer takes for a run of 10,000 events, beside one of 1,000 and beside `json.loads` of the same lines.

The run is one in a world of 1,000 files that was read through: each event lists, reads or searches, with about 1.5 KB
of output. What is measured is the call of `score` in a new process, without the interpreter's start; tools are not
tried, as a container's start is another figure."""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.stamps import progress
from bench.tables import Figure, Table, Verdict, milliseconds, times

ROUNDS = 5
MANY, FEW = 10_000, 1_000
GOAL_SECONDS = 1.0
LINEAR = 1.25
"""An event of the long run may cost this much of one of the short: memory grows, and caches do not."""
SCORING = Path(__file__).parents[1] / "discovery/scoring"
FILES = 1_000
_MEASURED = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import scorer
began = time.perf_counter()
report = scorer.score(sys.argv[2], tools=False)
scored = time.perf_counter() - began
began = time.perf_counter()
with open(sys.argv[2] + "/events.jsonl", "rb") as file:
    for line in file:
        json.loads(line)
print(json.dumps([scored, time.perf_counter() - began, report["steps"], report["honest"]["success"]["count"]]))
"""


def run(directory: Path, rounds: int | None = None) -> Figure:
    places = {count: write_run(directory / str(count), count) for count in (FEW, MANY)}
    measured: dict[int, list[tuple[float, float]]] = {FEW: [], MANY: []}
    for number in range(rounds or ROUNDS):
        for count, place in places.items():
            progress("discovery score", f"round {number + 1}, {count} events")
            measured[count].append(_measure(place, count))
    return _figure(measured, {count: (place / "events.jsonl").stat().st_size for count, place in places.items()})


def _measure(place: Path, count: int) -> tuple[float, float]:
    words = [sys.executable, "-c", _MEASURED, str(SCORING), str(place)]
    ended = subprocess.run(words, capture_output=True, text=True, check=True, timeout=300)
    scored, parsed, steps, succeeded = json.loads(ended.stdout)
    if steps != count or succeeded != count:
        raise RuntimeError(f"{count} events, all with something new, were scored as {steps}, {succeeded} with it")
    return scored, parsed


def _figure(measured: dict[int, list[tuple[float, float]]], sizes: dict[int, int]) -> Figure:
    scored = {count: statistics.median(one for one, _ in values) for count, values in measured.items()}
    parsed = {count: statistics.median(one for _, one in values) for count, values in measured.items()}
    rows = tuple(
        (
            f"{count} events",
            f"{sizes[count] / 1e6:.1f}",
            milliseconds(scored[count]),
            f"{scored[count] / count * 1e6:.1f}",
            milliseconds(parsed[count]),
            times(scored[count] / parsed[count]),
        )
        for count in (FEW, MANY)
    )
    table = Table(
        f"scoring a run in a world of {FILES} files, medians of {len(measured[MANY])} rounds",
        ("", "MB", "score ms", "us each", "json.loads ms", "ratio"),
        rows,
    )
    growth = scored[MANY] / MANY / (scored[FEW] / FEW)
    fast = f"scoring {MANY} events: {scored[MANY]:.2f} s; goal under {GOAL_SECONDS:g} s"
    linear = f"an event of {MANY} costs {times(growth)} one of {FEW}; goal at most {LINEAR:g}x"
    return Figure(
        (table,),
        (
            _verdict(scored[MANY] < GOAL_SECONDS, fast),
            _verdict(growth <= LINEAR, linear),
            Verdict(
                None, f"scoring is {times(scored[MANY] / parsed[MANY])} of json.loads of its lines; no goal, shown"
            ),
        ),
    )


def _verdict(met: bool, text: str) -> Verdict:
    return Verdict(met, f"{text}: {'met' if met else 'MISSED'}")


def write_run(place: Path, count: int) -> Path:
    """A run directory of so many command events."""
    place.mkdir(parents=True)
    paths = [f"/world/part{number // 20:03}/file-{_nonce('name', number)}.csv" for number in range(FILES)]
    events, witness = [], [{"version": 1, "world": True, "home": True, "why": {}}]
    for number in range(1, count + 1):
        event, seen = _step(number, paths)
        events.append({"t": 1.8e9 + number, "plan": "<Command>\n" * 10, **event, "stderr": "", "exit_code": 0})
        witness.append(
            {"step": number, "read": [], "listed": [], "tools": {}, "changed": [], "overflow": False, **seen}
        )
    meta = {"version": 1, "mode": "model", "world": {"directory": None, "seed": 1, "size": "none"}}
    (place / "meta.json").write_text(json.dumps(meta))
    (place / "known.json").write_text(json.dumps(_known(paths)))
    for name, values in (("events.jsonl", events), ("witness.jsonl", witness)):
        (place / name).write_text("".join(json.dumps(value) + "\n" for value in values))
    return place


def _step(number: int, paths: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    place = number % FILES
    more: dict[str, Any] = {"latency_s": 0.1 + number / 1e6, "step": number}
    seen: dict[str, Any] = {}
    if number % 3 == 0:
        shown = paths[place : place + 25]
        command, lines = f"find /world -name '*{number}*'", [*shown, f"{number} found"]
        seen = {"listed": sorted({path.rpartition("/")[0] for path in shown})}
    elif number % 3 == 1:
        command = f"cat {paths[place]} | head -40"
        lines = [f"{_nonce('content', place)}-{row:03},{number},{row * 7919},red" for row in range(40)]
        seen = {"read": [paths[place]]}
    else:
        command = f"grep -rn {_nonce('content', place - 1)} /world"
        lines = [f"{paths[place]}:{row}:{number}: {_nonce('content', place - 1)}" for row in range(16)]
    return {"command": command, "stdout": "\n".join(lines) + "\n", **more}, seen


def _known(paths: list[str]) -> dict[str, Any]:
    return {
        "version": 1,
        "files": [{"path": path, "sha256": "0" * 64, "bytes": 1000, "lines": 40, "kind": "table"} for path in paths],
        "items": [
            {
                "id": f"item-{number}",
                "path": path,
                "name_nonce": _nonce("name", number),
                "content_nonce": _nonce("content", number),
            }
            for number, path in enumerate(paths)
        ],
        "questions": [],
    }


def _nonce(kind: str, number: int) -> str:
    return hashlib.sha256(f"{kind} {number}".encode()).hexdigest()[:10]
