"""The watcher has a branch examined when it is asked to, holds the cell meanwhile, and lets it go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.examination import records, refs, trees
from infra.examination.verdict import Verdict
from infra.repository.git import Git
from tests.supervision.agents import Agent, within

BEATS = "def test_slow():\n    import time\n    time.sleep({seconds})\n"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path)
    (made.clone / "tests").mkdir()
    (made.clone / "tests/test_a.py").write_text(BEATS.format(seconds=1))
    made.commit("serve()")
    made.git("push", "-q", "origin", "main")
    yield made
    made.close()


def ask(agent: Agent, name: str, behaviour: str = "serve()  # better") -> str:
    commit = agent.branch(name, behaviour)
    refs.ask(Git(agent.places.remote), name, commit)
    return commit


def verdict(agent: Agent, commit: str, seconds: float = 60.0) -> Verdict:
    git = Git(agent.places.remote)
    key = trees.key_of(git, trees.merged(git, git("rev-parse", "refs/heads/main"), commit))
    return within(seconds, lambda: records.find(git, key), "a verdict")


def is_stopped(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


@pytest.mark.heavy
def test_what_is_asked_for_is_examined_while_the_cell_is_held(agent: Agent) -> None:
    """The runner is stopped while the tests run, and goes on; the request is gone when the verdict is there."""
    agent.start()
    boot = agent.serving()
    commit = ask(agent, "better")

    within(30, lambda: is_stopped(boot.runner_pid), "the runner is held")
    found = verdict(agent, commit)

    assert found.passed, found.why
    assert (found.branch, found.commit, found.mains.passed) == ("better", commit, 1)
    within(10, lambda: not refs.is_asked(agent.places.remote), "the request is taken away")
    within(10, lambda: not is_stopped(boot.runner_pid), "the runner goes on")
    assert agent.state().boot_id == boot.boot_id


@pytest.mark.heavy
def test_a_killed_watcher_leaves_the_request_and_holds_nobody(agent: Agent) -> None:
    """The next one lets the runner go on, and examines anew."""
    watcher = agent.start()
    boot = agent.serving()
    commit = ask(agent, "better")
    within(30, lambda: is_stopped(boot.runner_pid), "the runner is held")

    watcher.kill()
    watcher.wait()
    agent.start()

    within(10, lambda: not is_stopped(boot.runner_pid), "the runner goes on")
    assert verdict(agent, commit).passed
    within(10, lambda: not is_stopped(boot.runner_pid), "the runner goes on again")
    assert agent.state().boot_id == boot.boot_id


@pytest.mark.heavy
def test_a_stop_does_not_wait_for_an_examination(agent: Agent) -> None:
    """The runner gets its SIGTERM at once, and the request stays for the next start."""
    (agent.clone / "tests/test_a.py").write_text(BEATS.format(seconds=60))
    agent.commit("serve()")
    agent.git("push", "-q", "origin", "main")
    agent.start()
    boot = agent.serving()
    ask(agent, "better")
    within(30, lambda: is_stopped(boot.runner_pid), "the runner is held")

    assert agent.stop() == 0

    assert refs.is_asked(agent.places.remote)
    assert not psutil.pid_exists(boot.runner_pid)


def test_a_request_that_somebody_packed_is_seen_again(agent: Agent) -> None:
    """The watcher looks for files alone; whoever asks again writes one."""
    git = Git(agent.places.remote)
    commit = ask(agent, "better")
    git("pack-refs", "--all")
    assert not refs.is_asked(agent.places.remote)

    refs.ask(git, "better", commit)

    assert refs.is_asked(agent.places.remote)
    assert refs.requests(git) == [("better", commit)]


@pytest.mark.heavy
def test_what_cannot_be_merged_is_not_asked_for_for_ever(agent: Agent) -> None:
    """Both changed the same line: there is no tree to examine."""
    agent.start()
    agent.serving()
    commit = agent.branch("better", "serve()  # mine")
    agent.commit("serve()  # yours")
    agent.git("push", "-q", "origin", "main")
    refs.ask(Git(agent.places.remote), "better", commit)

    within(20, lambda: not refs.is_asked(agent.places.remote), "the request is dropped")
    assert "cannot be merged" in agent.log()
