"""What of a page reaches the model, and how long that takes: our reading beside trafilatura and readability.

Ours is measured in this process, without the worker's pipe; what that adds is measured apart."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path

import msgspec

from bench.pages import PAGES, SamplePage
from bench.peers import PEERS_BIN, Missing
from bench.tables import Figure, Table, Verdict, milliseconds, spread
from infra.keep.web_door.bodies import read
from infra.keep.web_door.worker import Readers, normalised
from infra.shared.paths import ROOT

ROUNDS = 15
OURS = "minifram"
URL = "https://pages.example/a"


class Reading(msgspec.Struct):
    text: str
    seconds: list[float]


def run(directory: Path, rounds: int | None) -> Figure:
    """Raises Missing."""
    rounds = rounds or ROUNDS
    read_by = {OURS: [_ours(page, rounds) for page in PAGES], **_theirs(rounds)}
    rows = tuple(_row(name, readings) for name, readings in read_by.items())
    each = tuple(
        (page.name, *(_scores(page, readings[number].text) for readings in read_by.values()))
        for number, page in enumerate(PAGES)
    )
    kept = {name: _found(readings, "kept") for name, readings in read_by.items()}
    junk = {name: _found(readings, "junk") for name, readings in read_by.items()}
    of = sum(len(page.kept) for page in PAGES)
    others = [name for name in read_by if name != OURS]
    best, least = max(kept[name] for name in others), min(junk[name] for name in others)
    verdicts = (
        Verdict(kept[OURS] == of, f"{kept[OURS]} of {of} things kept, the best of the others {best}; goal all"),
        Verdict(junk[OURS] <= least, f"{junk[OURS]} things of junk, the least of the others {least}; goal no more"),
        Verdict(None, f"a page over the worker's pipe: {milliseconds(_piped(rounds))} ms; no goal, shown"),
    )
    head = ("", "kept", "junk", "median ms", "longest page ms", "chars")
    tables = (
        Table(f"What {len(PAGES)} pages become", head, rows),
        Table("Things kept + things of junk, by page", ("", *read_by), each),
    )
    return Figure(tables, verdicts)


def _ours(page: SamplePage, rounds: int) -> Reading:
    seconds, text = list[float](), ""
    for _ in range(rounds + 1):
        began = time.perf_counter()
        content = normalised(read(page.html.encode(), "text/html; charset=utf-8", URL, False))
        text = f"{content.title}\n{content.markdown}"
        seconds.append(time.perf_counter() - began)
    return Reading(text, seconds[1:])


def _theirs(rounds: int) -> dict[str, list[Reading]]:
    python = f"{PEERS_BIN}/python"
    asked = json.dumps({"rounds": rounds, "pages": [page.html for page in PAGES]})
    try:
        script = f"{ROOT}/bench/pages_peers.py"
        ran = subprocess.run([python, "-I", script], input=asked.encode(), stdout=subprocess.PIPE, check=True)
    except FileNotFoundError:
        raise Missing("trafilatura and readability are missing; run 'make setup-bench', then again") from None
    return msgspec.json.decode(ran.stdout, type=dict[str, list[Reading]])


def _piped(rounds: int) -> float:
    """The median of the first page, by a worker that is warm."""

    async def measured() -> list[float]:
        readers, body, seconds = Readers(), PAGES[0].html.encode(), list[float]()
        try:
            for _ in range(rounds + 1):
                began = time.perf_counter()
                await readers.read(body, "text/html; charset=utf-8", URL, False)
                seconds.append(time.perf_counter() - began)
        finally:
            await readers.close()
        return seconds[1:]

    return spread(asyncio.run(measured())).median


def _row(name: str, readings: list[Reading]) -> tuple[str, ...]:
    medians = [spread(reading.seconds).median for reading in readings]
    kept, junk = _found(readings, "kept"), _found(readings, "junk")
    of_kept, of_junk = sum(len(page.kept) for page in PAGES), sum(len(page.junk) for page in PAGES)
    chars = sum(len(reading.text) for reading in readings)
    times = (milliseconds(spread(medians).median), milliseconds(max(medians)))
    return name, f"{kept} of {of_kept}", f"{junk} of {of_junk}", *times, f"{chars:,}"


def _found(readings: list[Reading], kind: str) -> int:
    both = zip(PAGES, readings, strict=True)
    return sum(len(_in(page, reading.text, kind)) for page, reading in both)


def _scores(page: SamplePage, text: str) -> str:
    return f"{len(_in(page, text, 'kept'))}/{len(page.kept)} + {len(_in(page, text, 'junk'))}"


def _in(page: SamplePage, text: str, kind: str) -> list[str]:
    return [word for word in (page.kept if kind == "kept" else page.junk) if word in text]
