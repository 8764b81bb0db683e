"""A step of discovery's orchestrator beside the same command by `podman exec`, in pairs: what it adds to parse the
block, bound the command, watch the world and write the event durably."""

from __future__ import annotations

import json
from pathlib import Path

from bench.sealed.discovery import PYTHON, site
from bench.sealed.rootless import prepared
from bench.stamps import progress
from bench.tables import TIMES_HEAD, Figure, Table, Verdict, spread, times, times_row

ROUNDS = 30
GOAL = 1.2
COMMANDS = {
    "true": "true",
    "seq 20000 (109 kB)": "seq 20000",
    "reads the world": "cat /world/data.csv /world/README.md",
}


def run(directory: Path, rounds: int | None) -> Figure:
    """Raises Unprepared."""
    rows, verdicts = [], []
    program = Path(__file__).with_name("discovery_pairs.py").read_text()
    with prepared() as user, site(user) as place:
        for name, command in COMMANDS.items():
            progress("discovery", f"pairs of {name}")
            words = (PYTHON, "-", "podman", place.name, str(rounds or ROUNDS), command)
            pairs = json.loads(place.run(*words, stdin=program).stdout)
            by_hand, steps = ([pair[place] for pair in pairs] for place in (0, 1))
            ratio = spread([step / hand for hand, step in pairs]).median
            rows += [
                times_row(f"{name}: podman exec by hand", by_hand),
                (*times_row(f"{name}: a step of a run", steps, by_hand)[:-1], times(ratio)),
            ]
            told = f"a step, {name}: {times(ratio)} of podman exec by hand; goal at most {GOAL:g}x"
            verdicts.append(Verdict(ratio <= GOAL, f"{told}: {'met' if ratio <= GOAL else 'MISSED'}"))
    table = Table(
        "a command as a step of a run: block given -> event on the disk, result shown",
        TIMES_HEAD,
        tuple(rows),
        ("In pairs, in turns; the ratio is the median of the ratios of the pairs.",),
    )
    return Figure((table,), tuple(verdicts))
