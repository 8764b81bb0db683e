"""What the host sees of the container's reads. A stand-in that sees nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Witness:
    """Sees nothing, and says so."""

    @staticmethod
    def open(world: Path, home: Path | None) -> Witness:
        return Witness()

    def first(self) -> dict[str, Any]:
        why = "there is no witness yet"
        return {"version": 1, "world": False, "home": False, "why": {"world": why, "home": why}}

    def step(self, number: int | None) -> dict[str, Any]:
        return {"step": number, "read": [], "listed": [], "tools": {}, "changed": [], "overflow": False}

    def close(self) -> None:
        return None
