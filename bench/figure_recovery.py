"""The first statement of a version that cannot be imported -> another one serves, seen to be well through both doors:
main after a branch, the last good main after a main, and safe mode where nothing was ever good."""

from __future__ import annotations

from pathlib import Path

from bench.supervised import SERVES, StampedAgent, bare_start, now, started
from bench.tables import Table, rounds, times
from infra.keep.watcher_file import Level
from tests.keep.supervision.agents import within

ROUNDS = 10
BAD = "import no_such_module\n"


def run(directory: Path, count: int) -> list[Table]:
    ways = {
        "a bare start": bare_start,
        "a branch: main serves": lambda number: _branch(directory / f"branch{number}"),
        "a main: the last good one serves": lambda number: _main(directory / f"main{number}"),
        "a main, nothing was ever good: safe mode": lambda number: _newborn(directory / f"newborn{number}"),
    }
    return [times("a bad version's first statement -> another one serves", rounds(count, ways))]


def _branch(directory: Path) -> float:
    with started(directory, "probation_seconds: 600") as agent:
        agent.branch("next", SERVES)
        agent.git("checkout", "-q", "next")
        agent.next_version(agent.clone, BAD)
        agent.git("push", "-q", "origin", "next")
        agent.serving()
        agent.order("next")
        return _replaced(agent, Level.MAIN)


def _main(directory: Path) -> float:
    with started(directory, "probation_seconds: 0.1") as agent:
        within(30.0, lambda: agent.state().goods, "a good version")
        agent.next_version(agent.clone, BAD)
        agent.push_main()
        agent.order("main")
        return _replaced(agent, Level.GOOD)


def _newborn(directory: Path) -> float:
    with started(directory, "probation_seconds: 600", BAD) as agent:
        return _replaced(agent, Level.SAFE)


def _replaced(agent: StampedAgent, level: str) -> float:
    """From the first statement of what is bad until this level serves, in a boot after it."""
    if level != Level.SAFE:
        agent.stamps.next("signal", "the old runner signalling")
    before, first = agent.state().active.boot_id, agent.stamps.next("first", "a bad version starting")
    within(
        30.0, lambda: agent.state().phase == "running" and agent.state().active.boot_id != before, f"{level} serving"
    )
    assert agent.state().active.level == level
    return now() - first.seconds
