"""The directory of a run: what happened, line by line, each line durable before its result is shown."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from llm_driver import Result

VERSION = 1
PLAN_CHARACTERS = 200_000
"""Of a refused block, as it is kept."""


class RunError(Exception):
    """A directory of a run cannot be made or read: why, and what to do."""


class Record:
    """Writes one run. Each line of `events.jsonl` is written whole and synced."""

    def __init__(self, runs: Path, meta: Mapping[str, Any]) -> None:
        """Make the run's directory, with its `meta.json`. Raises RunError."""
        began = time.time()
        try:
            self.path = _fresh(runs, began)
            self.meta = {**meta, "started_at": iso(began)}
            self._write_meta()
            self._events = _open(self.path / "events.jsonl")
        except OSError as error:
            raise RunError(f"the run cannot be written below {runs}: {error.strerror}; --runs names another") from None
        self._refused = 0

    def event(self, plan: str, result: Result, spent: Mapping[str, float | int]) -> None:
        """A command event, in the customer's schema with more keys behind."""
        event = {
            "t": time.time(),
            "plan": plan,
            "command": result.command,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "exit_code": result.exit_code,
            "latency_s": round(result.latency_s, 6),
            "step": result.step,
            "timed_out": result.timed_out,
            "stdout_bytes": result.stdout_bytes,
            "stderr_bytes": result.stderr_bytes,
            "restarted": result.restarted,
        }
        _append(self._events, {**event, **spent})

    def note(self, post: str) -> None:
        """A note event."""
        _append(self._events, {"t": time.time(), "post": post})

    def refused(self, plan: str, error: str) -> None:
        """A block that was not carried out."""
        self._refused += 1
        self.line("refused.jsonl", {"t": time.time(), "plan": plan[:PLAN_CHARACTERS], "error": error})

    def line(self, name: str, value: Mapping[str, Any]) -> None:
        """Append a line to another file of the run."""
        descriptor = _open(self.path / name)
        try:
            _append(descriptor, value, sync=False)
        finally:
            os.close(descriptor)

    def put(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a whole file of the run."""
        replace_file(self.path / name, _json(value, indent=1) + "\n")

    def end(self, ended_by: str, **more: object) -> None:
        """Write why and when the run ended."""
        self.meta |= {"ended_at": iso(time.time()), "ended_by": ended_by, "refused_blocks": self._refused, **more}
        self._write_meta()
        os.close(self._events)

    def _write_meta(self) -> None:
        self.put("meta.json", self.meta)


def iso(seconds: float) -> str:
    """A time since the epoch as the customer writes it, with milliseconds."""
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def replace_file(path: Path, text: str) -> None:
    """Write a file so that at any moment it is the old or the new one, whole."""
    half = path.with_name(f".{path.name}.new")
    with open(half, "w", encoding="utf-8", errors="replace", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    _sync_directory(path.parent)


@contextlib.contextmanager
def alone(runs: Path, container: str) -> Iterator[None]:
    """One run at a time in a container. Raises RunError."""
    try:
        runs.mkdir(parents=True, exist_ok=True)
        lock = open(runs / f".{container}.lock", "a")  # noqa: SIM115 - closed below
    except OSError as error:
        raise RunError(f"{runs} cannot be written: {error.strerror}; --runs names another directory") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(
                f"another run is at work in the container {container}. Let it end, or make a container of your own: "
                "AGENT_CONTAINER=another-name, for the compose command and for this one"
            ) from None
        yield


# --- reading -------------------------------------------------------------------------------------


def read_meta(run: Path) -> dict[str, Any]:
    """`meta.json` of version 1, or the customer's own schema, which has no version. Raises RunError."""
    try:
        meta = json.loads((run / "meta.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"{run} is no directory of a run: its meta.json cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RunError(f"{run}/meta.json is no JSON: {error}") from None
    if not isinstance(meta, dict):
        raise RunError(f"{run}/meta.json holds {type(meta).__name__}; an object is expected")
    if meta.get("version", VERSION) != VERSION:
        raise RunError(
            f"{run} is a run of version {meta['version']!r}, and this program reads version {VERSION}. "
            "Read it with the program that wrote it"
        )
    return meta


def read_events(run: Path) -> tuple[list[dict[str, Any]], int]:
    """The events, and how many lines were none: the last one of a run that was killed may be cut. Raises RunError."""
    try:
        text = (run / "events.jsonl").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise RunError(f"{run}/events.jsonl cannot be read: {error.strerror}") from None
    events, bad = [], 0
    for line in text.split("\n"):
        try:
            event = json.loads(line) if line.strip() else None
        except ValueError:
            event = 0
        if isinstance(event, dict):
            events.append(event)
        elif event is not None:
            bad += 1
    return events, bad


# --- files ---------------------------------------------------------------------------------------


def _fresh(runs: Path, began: float) -> Path:
    """A new directory named by the time; a name already taken gives way to the next millisecond."""
    runs.mkdir(parents=True, exist_ok=True)
    for number in range(1000):
        path = runs / re.sub(r"(?<=\d):(?=\d)", "", iso(began + number / 1000))
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            _sync_directory(runs)
            return path
    raise RunError(f"{runs} has a run of every millisecond of this second; try again")


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _append(descriptor: int, value: Mapping[str, Any], sync: bool = True) -> None:
    left = memoryview((_json(value) + "\n").encode("utf-8", "replace"))
    while left:
        left = left[os.write(descriptor, left) :]
    if sync:
        os.fsync(descriptor)


def _json(value: Mapping[str, Any], indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
