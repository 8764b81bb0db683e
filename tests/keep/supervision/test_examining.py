"""The watcher has a branch examined when it is asked to, holds the cell meanwhile, and lets it go on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from infra.keep.verdicts import records, refs, trees
from infra.keep.verdicts.refs import VERDICTS
from infra.keep.verdicts.verdict import Verdict
from infra.shared.repository.git import Git
from tests.keep.supervision.agents import Agent, within
from tests.keep.supervision.apart_watcher import EXAMINER

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
    ref = Path(agent.places.remote, f"{VERDICTS}{key}")  # looked for first, because each search starts a process
    return within(seconds, lambda: records.find(git, key) if ref.exists() else None, "a verdict")


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
    within(30.0, lambda: not refs.is_asked(agent.places.remote), "the request is taken away")
    within(30.0, lambda: not is_stopped(boot.runner_pid), "the runner goes on")
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

    within(30.0, lambda: not is_stopped(boot.runner_pid), "the runner goes on")
    assert verdict(agent, commit).passed
    within(30.0, lambda: not is_stopped(boot.runner_pid), "the runner goes on again")
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

    within(30.0, lambda: not refs.is_asked(agent.places.remote), "the request is dropped")
    assert "cannot be merged" in agent.log()


FOR_ALL_USERS = """
set -e
mount -t tmpfs none "$KEPT"
for each in $NEEDED; do mkdir -p "$KEPT$each"; mount --rbind "$each" "$KEPT$each"; done
for each in $CLOSED; do mount -t tmpfs -o mode=755 none "$each"; done
for each in $NEEDED; do mkdir -p "$each"; mount --rbind "$KEPT$each" "$each"; done
exec "$@"
"""
"""For a shell in a mount namespace of its own: what is needed can be reached by all users."""


def opened(directory: Path) -> list[str]:
    """Words before a command: the interpreter and this project may lie where only root can look (a home, pyenv)."""
    needed = {Path(each).resolve() for each in (sys.base_prefix, sys.prefix, Path(__file__).parents[3])}
    closed = {above for path in needed for above in path.parents if not above.stat().st_mode & 0o001}
    outermost = [path for path in closed if not closed & set(path.parents)]
    directory.mkdir()
    names = {"KEPT": [directory], "NEEDED": sorted(needed), "CLOSED": outermost}
    given = [f"{name}={' '.join(map(str, paths))}" for name, paths in names.items()]
    return ["env", *given, "unshare", "--mount", "sh", "-c", FOR_ALL_USERS, "sh"]


@pytest.mark.heavy
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
def test_the_examiner_is_a_user_of_its_own(agent: Agent) -> None:
    """The branch's code runs as that user: it cannot write what is the keep's, nor read what is the cell's alone."""
    os.mkdir(f"{agent.run}/scratch", 0o777)
    os.chmod(f"{agent.run}/scratch", 0o1777)
    os.chmod(agent.run, 0o711)
    os.makedirs(f"{agent.run}/scratch/xleft/c", 0o500)
    for left in ("xleft/c", "xleft"):
        os.chown(f"{agent.run}/scratch/{left}", EXAMINER.uid or 0, -1)
    test = (
        "import os, pytest\n\ndef test_apart():\n"
        f"    assert os.getuid() == {EXAMINER.uid}\n"
        f"    with pytest.raises(PermissionError):\n        open({agent.places.var!r} + '/x', 'w')\n"
        f"    assert os.getcwd().startswith({agent.run!r} + '/scratch/')\n"
    )
    agent.git("checkout", "-q", "-b", "apart", "main")
    (agent.clone / "tests/test_apart.py").write_text(test)
    commit = agent.commit("serve()  # apart")
    agent.git("push", "-q", "origin", "apart")
    agent.start("tests.keep.supervision.apart_watcher", opened(agent.directory / "kept"))
    agent.serving()
    refs.ask(Git(agent.places.remote), "apart", commit)

    found = verdict(agent, commit)

    assert found.passed, (found.why, found.failures)
    assert found.own.passed == 1
    assert os.listdir(f"{agent.run}/scratch") == []
