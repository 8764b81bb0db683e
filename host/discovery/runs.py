"""The runs that are here: found by name, summed up, scored, compared."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from host.discovery import scripts
from host.errors import not_found
from host.paths import DiscoveryPaths
from infra.shared.files import write_whole

SCORE = "score.json"
MOST_BYTES = 64 << 20
TAIL_BYTES = 1 << 20
MOST = 1e15
"""Of any number that is told of a run."""
_NAME = re.compile(r"2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9.]+Z")


class Summary(NamedTuple):
    """One run, on one line."""

    run: str
    directory: str
    model: str
    """Who explored; the mode without a model."""
    world: str
    ended_by: str
    """Empty: it goes on, or was killed."""
    steps: int | None
    usd: float | None
    files_read: float | None
    """Share; None without a score."""
    questions_right: float | None
    engine: str = ""
    problem: str = ""
    """Why nothing of it can be told."""


def find(places: DiscoveryPaths, run: str) -> str:
    """The directory of a run, given by its name, the beginning of its name, or its path. Raises CommandError."""
    if os.path.isfile(f"{run}/meta.json"):
        return os.path.abspath(run)
    found = [name for name in names(places) if name == run] or [name for name in names(places) if name.startswith(run)]
    if len(found) == 1:
        return f"{places.runs}/{found[0]}"
    if found:
        raise not_found(f"{len(found)} runs begin with {run!r}; give more of the name ('minifram discover list')")
    raise not_found(f"no such run: {run!r}, neither in {places.runs} nor as a directory with a meta.json")


def names(places: DiscoveryPaths) -> list[str]:
    """Of all runs, the oldest first."""
    found = os.listdir(places.runs) if os.path.isdir(places.runs) else []
    return sorted(name for name in found if _NAME.fullmatch(name))


def summary(directory: str) -> Summary:
    """What is known of a run without scoring it."""
    name = os.path.basename(directory)
    try:
        meta = _read(f"{directory}/meta.json")
    except (OSError, ValueError) as error:
        return Summary(
            name, directory, "", "", "", None, None, None, None, problem=f"meta.json cannot be read: {error}"
        )
    last = _last_event(f"{directory}/events.jsonl")
    try:
        score = _read(f"{directory}/{SCORE}")
    except (OSError, ValueError):
        score = {}
    return Summary(
        name,
        directory,
        _text(meta.get("model")) or _text(meta.get("mode")),
        _world_words(meta.get("world")),
        _text(meta.get("ended_by")) if meta.get("ended_at") else "",
        int(number) if (number := _number(last, "step")) is not None else None,
        _number(last, "usd"),
        _number(score, "honest", "files_read", "share"),
        _number(score, "honest", "questions", "share"),
        _text(meta.get("engine")),
    )


def score(
    directory: str,
    root: str,
    environ: Mapping[str, str],
    engine: str | None = None,
    try_tools: bool = True,
    explain: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """The scorer's report, which is kept with the run, and what the scorer says beside it. Raises CommandError."""
    words = [directory]
    words += [f"--engine={engine}"] if engine else []
    words += [] if try_tools else ["--no-tools"]
    words += ["--explain"] if explain else []
    out, said = scripts.output(root, scripts.SCORER, *words, environ=environ)
    report = json.loads(out)
    write_whole(f"{directory}/{SCORE}", out.encode())
    return report, said.splitlines()


def compare(
    directories: Sequence[str], root: str, environ: Mapping[str, str], svg: str | None, as_json: bool
) -> tuple[str, list[str]]:
    """What compare.py prints, and its warnings. Raises CommandError."""
    words = [*directories, *(["--svg", svg] if svg else []), *(["--json"] if as_json else [])]
    out, said = scripts.output(root, scripts.COMPARE, *words, environ=environ)
    return out, said.splitlines()


def figures(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The report as names and words: first what an echo cannot move."""
    honest = report.get("honest") or {}
    why = honest.get("why") or {}

    def part(name: str, words: str) -> tuple[str, str]:
        given = honest.get(name)
        values = {key: _shown(value) for key, value in given.items()} if isinstance(given, dict) else None
        return name, words.format_map(_Or(values)) if values else f"not known: {why.get(name, 'no reason is given')}"

    yield part("files_read", "{count} of {of} ({share})")
    yield part("questions", "{right} right of {asked}, {answered} answered ({share})")
    yield part("checkpoints", "of {of}: {found} found, {touched} touched, {used} used")
    yield part("success", "{count} of {of} commands ({rate})")
    yield part("tools", "{written} written, {run} run, {reused} reused, {work_on_other_data} work on other data")
    artifacts = honest.get("artifacts")
    for name, each in artifacts.items() if isinstance(artifacts, dict) else ():
        values = _Or({key: _shown(value) for key, value in each.items()} if isinstance(each, dict) else {})
        yield name, "{true} of {claims} claims are true ({share})".format_map(values)
    for name in ("coverage_files", "efficiency_success_rate", "latency_median_s", "tools_count", "steps"):
        yield name, _shown(report.get(name))


class _Or(dict[str, str]):
    """A key that is missing is a dash."""

    def __missing__(self, key: str) -> str:
        return "-"


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "-"
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _read(path: str) -> dict[str, Any]:
    """Raises OSError and ValueError."""
    with open(path, "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has over {MOST_BYTES} bytes")
    value = _parsed(content)
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    return value


def _parsed(content: bytes) -> Any:
    """Raises ValueError."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _last_event(path: str) -> dict[str, Any]:
    """The last command event near the end of the file; empty for none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).splitlines()
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            event = _parsed(line)
        except ValueError:
            continue  # cut at either end
        if isinstance(event, dict) and "command" in event:
            return event
    return {}


def _world_words(world: Any) -> str:
    if not isinstance(world, dict):
        return ""
    return "seed world" if world.get("seed") is None else f"seed {world['seed']}, {world.get('size')}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any, *path: str) -> float | None:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if -MOST < value < MOST else None
