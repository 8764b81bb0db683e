"""`python -m bench [NAME...]`: measure some or all figures, and print their tables."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import tempfile
from pathlib import Path

from bench.tables import render

NAMES = sorted(path.stem.removeprefix("figure_") for path in Path(__file__).parent.glob("figure_*.py"))


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure minifram beside its peers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(NAMES)}; default: all")
    parser.add_argument("--rounds", type=int, help="of each figure; default: each figure's own number")
    given = parser.parse_args(words)
    if unknown := set(given.names) - set(NAMES):
        parser.error(f"no such figure: {', '.join(sorted(unknown))}; the figures are {', '.join(NAMES)}")
    load = os.getloadavg()[0]
    for name in given.names or NAMES:
        print(f"bench: {name} ...", file=sys.stderr, flush=True)
        figure = importlib.import_module(f"bench.figure_{name}")
        with tempfile.TemporaryDirectory(prefix="mf-bench-") as directory:
            for table in figure.run(Path(directory), given.rounds or figure.ROUNDS):
                print(render(table), end="\n\n", flush=True)
    python, cores = platform.python_version(), os.cpu_count()
    print(f"Python {python}, Linux {platform.release()}, {cores} cores, load {load:.1f} when it began")


if __name__ == "__main__":
    main(sys.argv[1:])
