"""Containers of runs that were killed. The container of each run is noted in a file, which is locked for as long as the
run or its orchestrator lasts; what a note without a lock tells of goes with the next run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator

from host.discovery import engine
from host.discovery.engine import Engine, Explorer
from host.display import Say
from host.paths import DiscoveryPaths
from infra.shared.files import make_directories

_RUN = re.compile(r"[0-9a-f]{8}")


@contextlib.contextmanager
def noted(places: DiscoveryPaths, found: Engine, explorer: Explorer) -> Iterator[int]:
    """The descriptor of the note, which holds its lock; the note goes with the body."""
    folder = _folder(places)
    make_directories(folder, 0o700)
    path = f"{folder}/{explorer.run}"
    note = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(note, fcntl.LOCK_EX)
        os.write(note, json.dumps({"engine": found.name, "name": explorer.name}).encode())
        yield note
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.close(note)


def clear(places: DiscoveryPaths, found: Engine, say: Say) -> None:
    """Remove what this engine still has of runs that were killed: only what is labelled for them."""
    folder = _folder(places)
    for run in os.listdir(folder) if os.path.isdir(folder) else ():
        if not _RUN.fullmatch(run):
            continue
        with contextlib.suppress(OSError), open(f"{folder}/{run}", "rb") as note:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else its run goes on
            try:
                told = json.load(note)
                name, of = str(told["name"]), told["engine"]
            except (ValueError, LookupError, TypeError):  # killed before it made anything
                os.unlink(note.name)
                continue
            if of != found.name:
                continue
            left = engine.remove(found, Explorer(name, "", "", run))
            for line in left or [f"removed what a run that was killed had left: the container {name}"]:
                say(line)
            if not left:
                os.unlink(note.name)


def _folder(places: DiscoveryPaths) -> str:
    return f"{places.data}/containers"
