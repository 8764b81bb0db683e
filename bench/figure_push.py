"""`git push` of one new commit, to its end: through the git door in both of its forms, beside the same by path.

First on the host, which needs no podman and shows what is the transport's share; then in the sealed container, where
the door is the agent's own git daemon and whoever pushes is the agent's user. In each place one clone pushes the same
commit in all ways, and all repositories lie on the same file system and have an agent's settings."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from bench import pushes
from bench.scene import born, places_in
from bench.sealed.agent import born as sealed_born
from bench.sealed.rootless import Unprepared
from bench.sealed.scene import Asked, answering, sealed_project
from bench.stamps import progress
from bench.tables import TIMES_HEAD, Figure, Table, Verdict, distance, times_row
from infra.keep.git_door import daemon
from infra.shared.paths import CONTAINER
from infra.shared.programs import keep_environment

ROUNDS = 12
LARGE_ROUNDS = 5
NAMES = {
    "direct": "to the path, no door",
    "plain daemon": "git daemon, no door",
    "path door": "the path door",
    "daemon door": "the git daemon door",
}
SMALL, LARGE = "one file of one line", "200 files, 1.2 MB in all"

Took = dict[str, list[float]]


def run(directory: Path, rounds: int | None) -> Figure:
    wanted = {"small": rounds or ROUNDS, "large": min(rounds or LARGE_ROUNDS, LARGE_ROUNDS)}
    figures = [_on_the_host(directory, wanted)]
    try:
        figures.append(_in_the_container(wanted))
    except Unprepared as missing:
        figures.append(Figure((), (Verdict(None, f"in the sealed container: left out, {missing}"),)))
    return Figure(
        tuple(table for figure in figures for table in figure.tables),
        tuple(verdict for figure in figures for verdict in figure.verdicts),
    )


def _on_the_host(directory: Path, wanted: dict[str, int]) -> Figure:
    places = places_in(directory)
    born(places)
    words = [sys.executable, "-s", "-P", "-m", "bench.pushes", str(directory / "pushes"), places.remote]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        words, cwd="/", env=keep_environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    return _figure("on the host", _measured(Asked(process, "bench.pushes"), "on the host", wanted))


def _in_the_container(wanted: dict[str, int]) -> Figure:
    with sealed_project() as project, sealed_born(project) as agent:
        agent.minifram("up")
        text = Path(pushes.__file__).read_text()
        words = (
            "python",
            "-s",
            "-P",
            "-c",
            text,
            f"{CONTAINER.bot}/pushes",
            daemon.url(CONTAINER),
            daemon.url(CONTAINER),
        )
        asked = answering(agent.user, agent.container, *words)
        return _figure("in the sealed container", _measured(asked, "in the container", wanted))


def _measured(asked: Asked, where: str, wanted: dict[str, int]) -> dict[str, Took]:
    took: dict[str, Took] = {size: {name: [] for name in NAMES} for size in wanted}
    with contextlib.closing(asked):
        asked.ask("small 0")  # compiles, and makes the branch
        number = 1
        for size, rounds in wanted.items():
            for _ in range(rounds):
                progress("push", f"{where}, {size}, round {len(took[size]['direct']) + 1} of {rounds}")
                for name, seconds in asked.ask(f"{size} {number}").items():
                    took[size][name].append(seconds)
                number += 1
    return took


def _figure(where: str, took: dict[str, Took]) -> Figure:
    shown = {"small": SMALL, "large": LARGE}
    tables = tuple(
        Table(
            f"git push of a commit of {shown[size]}, {where}",
            TIMES_HEAD,
            tuple(times_row(NAMES[name], values, of["direct"]) for name, values in of.items()),
        )
        for size, of in took.items()
    )
    verdicts = tuple(
        distance(f"push {where}, {shown[size]}, {NAMES[name]}", of[name], "a push to the path", of["direct"])
        for size, of in took.items()
        for name in ("path door", "daemon door")
    )
    return Figure(tables, verdicts)
