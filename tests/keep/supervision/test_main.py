"""The shared repository as the watcher sees it: main, the list of good versions, and locks that nobody holds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import structlog

from infra.keep.repository.bare_tip import KNOWN_GOOD, RETRY_REF
from infra.keep.supervision.decide.events import MainSeen, RetryAsked
from infra.keep.supervision.main import LOCK_SECONDS, SharedMain
from infra.keep.watcher_file import Version
from infra.shared.repository.git import Git
from tests.keep.supervision.agents import Agent

LOCKS = ("refs/heads/main.lock", "refs/heads/a/b.lock", "refs/minifram/good/1.lock", "packed-refs.lock", "HEAD.lock")


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


def test_refs_are_the_list_of_good_versions(agent: Agent) -> None:
    """The watcher adds; what the PM takes away meanwhile stays away; main's tip is seen once."""
    git, main = Git(agent.places.remote), SharedMain(agent.places.remote, structlog.get_logger())
    main.settle((Version("0" * 40, "0" * 16),))
    assert git("for-each-ref", KNOWN_GOOD) == "", "nobody has looked yet"
    (seen,) = main.look()
    assert isinstance(seen, MainSeen)
    assert (seen.main.commit, seen.goods, main.look()) == (agent.git("rev-parse", "main"), (), [])
    one, two = (Version(seen.main.commit, name) for name in ("1" * 16, "2" * 16))
    main.settle((two, one), retried=False)
    assert main.look() == [MainSeen(seen.main, (one, two))]
    git("update-ref", "-d", f"{KNOWN_GOOD}/{two.id}")
    main.settle((two, one), retried=False)
    assert main.look() == [MainSeen(seen.main, (one,))]
    main.settle((), retried=False)
    assert git("for-each-ref", KNOWN_GOOD) == ""


def test_retry_is_asked_until_it_was_remembered(agent: Agent) -> None:
    main = SharedMain(agent.places.remote, structlog.get_logger())
    main.look()
    Git(agent.places.remote)("update-ref", RETRY_REF, "refs/heads/main")
    assert (main.look(), main.look()) == ([RetryAsked()], [RetryAsked()])
    main.settle((), retried=True)
    assert main.look() == []


def test_a_disk_that_does_not_take_it_ends_no_watcher(agent: Agent) -> None:
    """What cannot be put onto the disk is logged: an agent without its watcher is worse."""
    main = SharedMain(agent.places.remote, structlog.get_logger())
    main.look()
    shutil.rmtree(agent.places.remote)
    with structlog.testing.capture_logs() as logged:
        main.settle((Version("0" * 40, "0123456789abcdef"),), retried=False)
    assert [entry["event"] for entry in logged] == ["repository.not_settled"]


@pytest.mark.fault("F33")
def test_an_old_lock_of_a_ref_goes(tmp_path: Path) -> None:
    """One of a git that was killed, or of a time to come; a fresh one, and what is no ref's lock, stay."""
    for each in (*LOCKS, "refs/heads/main", "objects/1.lock"):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
        os.utime(tmp_path / each, (1000.0, 1000.0))
    (tmp_path / "refs/heads/directory.lock").mkdir()
    main = SharedMain(str(tmp_path), structlog.get_logger())
    main.remove_stale_locks(1000.0 + LOCK_SECONDS)
    assert all((tmp_path / each).exists() for each in LOCKS)
    main.remove_stale_locks(1000.1 + LOCK_SECONDS)
    assert not any((tmp_path / each).exists() for each in LOCKS)
    assert (tmp_path / "refs/heads/main").exists()
    assert (tmp_path / "objects/1.lock").exists()
