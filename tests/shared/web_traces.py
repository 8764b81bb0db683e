"""The web door's trace, written by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path

from infra.shared.clock import timestamp
from infra.shared.paths import Paths

EVIL = "https://evil.example"


class WebTrace:
    def __init__(self, places: Paths) -> None:
        self.path = Path(places.web_trace)
        self.path.parent.mkdir(exist_ok=True)
        self.older = Path(f"{places.web_trace}.1")

    def served(self, origin: str = EVIL, status: str = "ok", ago: float = 60.0, **more: object) -> None:
        """So many seconds ago."""
        at = timestamp(time.time() - ago)
        line = {"at": at, "tool_name": "fetch_page", "duration_ms": 3, "status": status, "origin": origin, **more}
        self.raw(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def raw(self, content: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(content)

    def rotate(self) -> None:
        """As the watcher does: copied and cut short."""
        self.older.write_bytes(self.path.read_bytes())
        self.path.write_bytes(b"")
