"""The directory of a run. Each event is on the disk before its result is shown."""

from __future__ import annotations

import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


class Record:
    """Writes one run: meta.json, events.jsonl, refused.jsonl and whole files beside them."""

    def __init__(self, runs: Path, meta: dict[str, Any], **more: Any) -> None:
        began = _iso(time.time())
        self.path = runs / began.replace(":", "")
        self.path.mkdir(parents=True)
        self._meta = {**meta, "started_at": began, "ended_at": None, **more}
        self.put("meta.json", self._meta)
        self._append("events.jsonl", "")

    def event(self, **event: Any) -> None:
        """A line of `events.jsonl`: a command's or a note's."""
        self._append("events.jsonl", _json({"t": time.time(), **event}) + "\n")

    def refuse(self, block: str, why: str) -> None:
        """A block that was not carried out: no event of the run. The beginning of a long one is kept."""
        line = {"t": time.time(), "block": block[:10_000], "why": why}
        self._append("refused.jsonl", _json(line) + "\n")

    def put(self, name: str, value: Any) -> None:
        """A whole file, written beside and renamed over."""
        half = self.path / f".{name}"
        half.write_text(_json(value, indent=1) + "\n", encoding="utf-8", errors="replace")
        half.replace(self.path / name)

    def end(self, ended_by: str) -> None:
        self.put("meta.json", {**self._meta, "ended_at": _iso(time.time()), "ended_by": ended_by})

    def _append(self, name: str, text: str) -> None:
        with open(self.path / name, "a", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def commands(run: Path) -> list[dict[str, Any]]:
    """The command events of a run. A line that is cut, as a killed run leaves one, is passed over. Raises OSError."""
    found = []
    for line in (run / "events.jsonl").read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("command"), str):
            found.append(event)
    return found


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
