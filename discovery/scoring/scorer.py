"""Scores one run.

    python3 scoring/scorer.py runs/2026-11-23T063000.123Z [--explain] [--no-tools] [--engine docker|podman] [--image I]

Prints a JSON report: the customer's five figures and `tools`, as simple as they are, and under `honest` those that an
echo cannot move (`honest.py` tells what each proves and what it does not). A figure that cannot be had is null, and
`honest.why` says why. `--explain` tells the evidence on stderr, so that stdout is the report alone.

Exit status: 0 scored, 1 this cannot be scored, 2 wrong words. Extension point: a new figure is a pure function over
the values of `run_values.py` and `digest.py`, and a name in `honest.NAMES`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from digest import digest
from explain import explained
from figures import figures
from honest import honest
from honest_tools import Tool, Trial, tools_of
from honest_world import names_due
from read_run import Refused, Warnings, commands, read_run
from run_values import Run
from tool_trials import NotTried, try_tools
from visible import visible
from world_copies import original_texts


@dataclass(frozen=True)
class Scored:
    """`report` is what is printed; `evidence` is by the honest figure's name, a line each."""

    report: dict[str, Any]
    evidence: Mapping[str, tuple[str, ...]]


def score(
    directory: str | Path, *, engine: str | None = None, image: str | None = None, tools: bool = True
) -> dict[str, Any]:
    """The report on a run directory. `engine` and `image`, in which tools are tried, are those of the run unless given;
    with `tools` False none is tried. Raises Refused."""
    return scored(directory, engine=engine, image=image, tools=tools).report


def scored(directory: str | Path, *, engine: str | None = None, image: str | None = None, tools: bool = True) -> Scored:
    """The same with the evidence. Raises Refused."""
    place = Path(directory)
    run = read_run(place)
    warnings = Warnings(list(run.warnings))
    due = names_due(run.known, run.witness)
    contents = [item.content_nonce for item in run.known.items] if run.known else []
    digested = digest(commands(place, warnings), due, contents)
    if digested.full:
        warnings.add("more lines or paths were printed than are remembered: figures may be too low")
    with tempfile.TemporaryDirectory(prefix="discovery-score-") as scratch:
        texts = original_texts(run.meta, run.known, Path(scratch)) if run.known and run.home else None
        found = tools_of(run.witness, run.home, digested) if run.witness and run.witness.home else None
        trials, why = _trials(run, found, texts, Path(scratch), engine, image, tools, warnings.add)
    values = honest(run, digested, found, trials, why, texts)
    report = {**figures(digested), "honest": values.value, "warnings": warnings.all()}
    return Scored(report, values.evidence)


def _trials(
    run: Run,
    found: list[Tool] | None,
    texts: Mapping[str, bytes] | None,
    scratch: Path,
    engine: str | None,
    image: str | None,
    wanted: bool,
    warn: Callable[[str], None],
) -> tuple[dict[str, Trial] | None, str]:
    """Or why there are none."""
    if not wanted:
        return None, "no tool was tried (--no-tools)"
    if not found:
        return ({}, "") if found is not None else (None, "")
    try:
        return try_tools(run, found, texts, scratch, engine, image), "not tried"
    except NotTried as reason:
        warn(f"no tool was tried on other data: {reason}")
        return None, str(reason)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Score one run of discovery.", allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help="a run directory, below runs/")
    parser.add_argument("--explain", action="store_true", help="tell the evidence, line by line, on stderr")
    parser.add_argument("--no-tools", action="store_true", help="try no tool on other data; needs no container engine")
    parser.add_argument("--engine", metavar="E", help="docker or podman (default: $DISCOVERY_ENGINE, or the run's)")
    parser.add_argument("--image", metavar="I", help="the image in which tools are tried (default: the run's)")
    given = parser.parse_args(words)
    engine = given.engine or os.environ.get("DISCOVERY_ENGINE") or None
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that no container stays
    try:
        result = scored(given.run, engine=engine, image=given.image, tools=not given.no_tools)
    except Refused as refused:
        print(f"scorer.py: {visible(str(refused), 2000)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("scorer.py: interrupted", file=sys.stderr)
        return 130
    if given.explain:
        for line in explained(result.report, result.evidence):
            print(line, file=sys.stderr)
    else:
        for text in result.report["warnings"]:
            print(f"scorer.py: {visible(text, 2000)}", file=sys.stderr)
    print(json.dumps(result.report, indent=2))  # ASCII alone: safe for any terminal
    return 0


if __name__ == "__main__":
    sys.exit(main())
