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
from honest_tools import Trial, tools_of
from honest_world import names_due
from read_run import Refused, Warnings, commands, read_run
from tool_trials import NotTried, try_tools
from visible import visible
from world_copies import original_texts


@dataclass(frozen=True)
class Scored:
    """`report` is what is printed; `evidence` is by the honest figure's name, a line each."""

    report: dict[str, Any]
    evidence: Mapping[str, tuple[str, ...]]


Say = Callable[[str], None]


def score(
    directory: str | Path, *, engine: str | None = None, image: str | None = None, tools: bool = True
) -> dict[str, Any]:
    """The report on a run directory. `engine` and `image`, in which tools are tried, are those of the run unless given;
    with `tools` False none is tried. Raises Refused."""
    return scored(directory, engine=engine, image=image, tools=tools).report


def scored(
    directory: str | Path,
    *,
    engine: str | None = None,
    image: str | None = None,
    tools: bool = True,
    say: Say = lambda line: None,
) -> Scored:
    """The same with the evidence; `say` takes lines of progress. Raises Refused."""
    place = Path(directory)
    run = read_run(place)
    warnings = Warnings(list(run.warnings))
    due = names_due(run.known, run.witness)
    contents = [item.content_nonce for item in run.known.items] if run.known else []
    digested = digest(commands(place, warnings), due, contents)
    if digested.full:
        warnings.add("more lines or paths were printed than are remembered: figures may be too low")
    found = tools_of(run.witness, run.home, digested) if run.witness and run.witness.home else None
    trials: dict[str, Trial] | None = None
    why = "no tool was tried (--no-tools)"
    with tempfile.TemporaryDirectory(prefix="discovery-score-") as name:
        scratch = Path(name).resolve()
        texts = original_texts(run.meta, run.known, scratch) if run.known and run.home else None
        if tools and found is not None:
            try:
                trials = try_tools(run, found, texts, scratch, engine, image, say) if found else {}
            except NotTried as reason:
                why = str(reason)
                warnings.add(f"no tool was tried on other data: {why}")
    values = honest(run, digested, found, trials, why, texts)
    report = {**figures(digested), "honest": values.value, "warnings": warnings.all()}
    return Scored(report, values.evidence)


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
        result = scored(given.run, engine=engine, image=given.image, tools=not given.no_tools, say=_say)
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


def _say(line: str) -> None:
    print(f"scorer.py: {visible(line)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
