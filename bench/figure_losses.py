"""kill -9 of the watcher at random moments: what the PM was to be told, what the cell asked for, and what became of it.

The agents and their runners are those of the tests that ask the same of fewer moments."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.scene import within
from bench.stamps import PATIENCE_SECONDS, progress
from bench.tables import Figure, Table, none_lost
from infra.shared.repository.git import Git
from infra.shared.repository.page_text import ARCHIVE
from infra.shared.repository.tip import read_file
from tests.keep.supervision.agents import Agent
from tests.keep.supervision.test_killed_watcher import HOPPER

ROUNDS = 40
BRANCHES = ("left", "right")


def run(directory: Path, rounds: int | None) -> Figure:
    wanted = rounds or ROUNDS
    with _agent(directory / "reports") as agent:
        made = _reports(agent, wanted)
    with _agent(directory / "signals", HOPPER, BRANCHES) as agent:
        followed = _signals(agent, wanted)
    rows = (
        _row("reports that the PM was to be told, and found on the page, in its archive, or counted", made, wanted),
        _row("signals for another branch, and the boots that followed", followed, wanted),
    )
    table = Table(
        "kill -9 of the watcher at a random moment, then another watcher",
        ("", "kills", "made", "once", "lost", "twice or wrong"),
        rows,
        (
            "Reports: each kill is within 0.15 s of a signal that is refused and told. Signals: at any moment of an",
            "endless hop over three branches, after one whole round: each runner signals the next branch and leaves.",
        ),
    )
    how = f"over {wanted} kills of the watcher"
    verdicts = (
        none_lost("reports", sum(count != 1 for count in made), len(made), how),
        none_lost("signals", sum(count != 1 for count in followed), len(followed), how),
    )
    return Figure((table,), verdicts)


def _row(what: str, counts: list[int], kills: int) -> tuple[str, ...]:
    once, lost = counts.count(1), counts.count(0)
    return what, str(kills), str(len(counts)), str(once), str(lost), str(len(counts) - once - lost)


@contextlib.contextmanager
def _agent(directory: Path, behaviour: str = "serve()", branches: tuple[str, ...] = ()) -> Iterator[Agent]:
    directory.mkdir()
    agent = Agent(directory, behaviour)
    try:
        for branch in branches:
            agent.branch(branch, behaviour)
        yield agent
    finally:
        agent.close()


def _killed(agent: Agent, dice: random.Random, most: float, before: Callable[[], None]) -> None:
    """Start a watcher, let it come as far as chance has it, and kill it."""
    begun = _begun(agent)
    watcher = agent.start()
    within(PATIENCE_SECONDS, lambda: _begun(agent) > begun, "the watcher beginning")
    before()
    time.sleep(dice.uniform(0.0, most))
    watcher.kill()
    watcher.wait()


def _await_hops(agent: Agent, launched: int) -> None:
    """Each branch leads once under this watcher: one that ended three times while none ran would be pinned for it."""
    within(PATIENCE_SECONDS, lambda: _launched(agent) >= launched, "a hop over all branches")


def _launched(agent: Agent) -> int:
    path = Path(agent.places.watcher_log)
    return path.read_text().count('"event": "runner.launched"') if path.exists() else 0


def _begun(agent: Agent) -> int:
    path = Path(agent.places.watcher_log)
    return path.read_text().count("watcher.started") if path.exists() else 0


def _reports(agent: Agent, rounds: int) -> list[int]:
    """How often each refused signal is told, or counted with those that are."""
    dice = random.Random(4)
    signal_file = Path(agent.places.signals, "bootstrap")

    def refused(words: str) -> None:
        within(PATIENCE_SECONDS, lambda: not signal_file.exists(), "the signal before to be claimed")
        half = signal_file.with_name(".tmp")
        half.write_text(f"{words}\n")
        half.rename(signal_file)

    wrong = [f"-no-branch-{number}-" for number in range(rounds)]
    for number, words in enumerate(wrong):
        progress("losses", f"reports, kill {number + 1} of {rounds}")
        _killed(agent, dice, 0.15, lambda words=words: refused(words))  # type: ignore[misc]
    agent.start()
    within(PATIENCE_SECONDS, lambda: agent.state().phase == "running" and not agent.state().untold, "all told")
    told = agent.comms() + (read_file(Git(agent.places.remote), "refs/heads/main", ARCHIVE) or "")
    agent.stop()
    counted = [line for line in agent.log().splitlines() if "report.counted" in line]
    return [_once(told.count(words), any(words in line for line in counted)) for words in wrong]


def _once(told: int, is_counted: bool) -> int:
    """The same trouble is told now and then and counted otherwise; what is neither is lost."""
    return told or int(is_counted)


def _signals(agent: Agent, rounds: int) -> list[int]:
    """For each signal 1 when the next boot is its branch's, 0 when none came, 2 when another did."""
    dice = random.Random(5)
    for number in range(rounds):
        progress("losses", f"signals, kill {number + 1} of {rounds}")
        hopped = _launched(agent) + len(BRANCHES) + 1
        _killed(agent, dice, 0.6, lambda hopped=hopped: _await_hops(agent, hopped))  # type: ignore[misc]
    Path(agent.places.bot, "enough").touch()
    agent.start()
    within(PATIENCE_SECONDS, lambda: agent.state().phase == "running" and agent.state().request is None, "a last boot")
    lines = Path(agent.places.bot, "history").read_text().splitlines()
    agent.stop()
    found = []
    for line, following in itertools.pairwise([*lines, ""]):
        word, target = line.split()[:2]
        if word == "asked":
            found.append(1 if following == f"boot {target} bootstrap" else 2 if following else 0)
        elif word == "overlap":
            raise RuntimeError(f"two runners at a time: {lines}")
    return found
