"""The side of the processes that take steps: numbers come in, how long each step took goes out, as JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable


def serve(steps: Callable[[int], list[float]]) -> None:
    """Answer each count on stdin until its end."""
    for line in sys.stdin:
        print(json.dumps(steps(int(line))), flush=True)


def between(received: list[float], sent: list[float]) -> list[float]:
    """From each reply's receipt to the request that was sent next; the first request follows no reply."""
    return [after - before for before, after in zip(received, sent[1:], strict=False)]
