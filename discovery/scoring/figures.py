"""The customer's five figures and `tools`, by the heuristics of section 5.5 to the letter.

They are as simple as they say: `coverage_files` counts paths in what was printed, so that one `echo` of a list of paths
moves it. What an echo does not move stands under `honest`."""

from __future__ import annotations

import statistics
from typing import Any

from digest import Digest


def figures(run: Digest) -> dict[str, Any]:
    """By their names; a ratio or a median of nothing is None. A tool stands where it was seen first."""
    steps = run.steps
    latencies = [step.latency_s for step in steps if step.latency_s is not None]
    return {
        "coverage_files": len(run.paths),
        "efficiency_success_rate": sum(step.exit_code == 0 for step in steps) / len(steps) if steps else None,
        "latency_median_s": statistics.median(latencies) if latencies else None,
        "tools_count": len(run.tools),
        "tools": list(run.tools),
        "steps": len(steps),
    }
