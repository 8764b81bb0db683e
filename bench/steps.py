"""The side of the processes that take steps: numbers come in, how long each step took goes out, as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable


def serve(steps: Callable[[int], list[float]]) -> None:
    """Answer each count on stdin until its end."""
    for line in sys.stdin:
        print(json.dumps(steps(int(line))), flush=True)


def between(received: list[float], sent: list[float]) -> list[float]:
    """From each reply's receipt to the request that was sent next; the first request follows no reply."""
    return [after - before for before, after in zip(received, sent[1:], strict=False)]


def serve_runs(url: str, run: Callable[[str, str], str]) -> None:
    """For each directory on stdin a run on the provider at `url`, until its end; what goes out is how the run ended and
    the processor time that it took, its children's as well."""
    for line in sys.stdin:
        before = _processor_seconds()
        end = run(url, line.rstrip("\n"))
        print(json.dumps({"end": end, "cpu": _processor_seconds() - before}), flush=True)


def _processor_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
