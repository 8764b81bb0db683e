"""The reference of a step: running the shell, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.steps import serve


def steps(count: int) -> list[float]:
    took = []
    for _ in range(count):
        began = time.perf_counter()
        subprocess.run([sys.argv[1], "-c", "true"], check=True)
        took.append(time.perf_counter() - began)
    return took


if __name__ == "__main__":
    serve(steps)
