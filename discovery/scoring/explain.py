"""Tells the evidence of a score, line by line, each safe to print whatever the agent wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from honest import NAMES
from visible import visible

MOST_LINES = 2000
"""Of one figure."""


def explained(report: Mapping[str, Any], evidence: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The customer's figures with what each counts, then each honest figure and its evidence."""
    counted = {
        "coverage_files": "different paths below /world and /home/agent in what commands printed",
        "efficiency_success_rate": "commands that ended with 0, of all",
        "latency_median_s": "seconds of a command",
        "tools_count": "different paths below /home/agent/tools in commands and outputs",
        "steps": "commands",
    }
    for name, what in counted.items():
        yield f"{name} = {json.dumps(report[name])}: {what}"
    honest = report["honest"]
    why = honest["why"]
    for name in NAMES:
        value = honest[name]
        told = json.dumps({key: one for key, one in value.items() if key != "each"}) if value else "null"
        yield f"honest.{name} = {told}"
        for part, text in why.items():
            if part == name or part.startswith(f"{name}."):
                yield f"    {part} is null: {visible(text)}" if part == name else f"    {part}: {visible(text)}"
        lines = evidence.get(name, ())
        for line in lines[:MOST_LINES]:
            yield f"    {visible(line)}"
        if len(lines) > MOST_LINES:
            yield f"    and {len(lines) - MOST_LINES} more lines"
    for text in report["warnings"]:
        yield f"warning: {visible(text)}"
