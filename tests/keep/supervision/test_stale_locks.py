"""Locks of refs: those without a holder go, those that are held stay."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from infra.keep.supervision.stale_locks import GLANCE_SECONDS, HELD_SECONDS, LOOK_SECONDS, OLD_SECONDS, StaleLocks
from infra.shared.paths import Paths

LOCKS = ("refs/heads/main.lock", "refs/heads/a/b.lock", "refs/minifram/good/1.lock", "packed-refs.lock", "HEAD.lock")


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    for each in (*LOCKS, "refs/heads/main", "objects/1.lock"):
        path = tmp_path / "remote" / each
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "remote"


@pytest.fixture
def locks(remote: Path) -> StaleLocks:
    root = str(remote.parent)
    places = Paths(bot=f"{root}/bot", remote=str(remote), run=f"{root}/run", var=f"{root}/var")
    return StaleLocks(places, structlog.stdlib.get_logger())


def born(remote: Path, wall: float) -> None:
    for each in LOCKS:
        os.utime(remote / each, (wall, wall))


def there(remote: Path) -> set[str]:
    return {each for each in LOCKS if (remote / each).exists()}


def test_a_lock_goes_when_it_was_seen_for_long_enough(remote: Path, locks: StaleLocks) -> None:
    """A fresh one for ten seconds."""
    born(remote, 1000.0)
    locks.look(100.0, 1000.0)
    locks.look(100.0 + HELD_SECONDS - 0.1, 1000.0)
    assert there(remote) == {*LOCKS}
    assert locks.due <= 100.0 + HELD_SECONDS + GLANCE_SECONDS
    locks.look(100.0 + HELD_SECONDS, 1000.0)
    assert (there(remote), locks.due) == (set(), 100.0 + HELD_SECONDS + LOOK_SECONDS)
    assert (remote / "refs/heads/main").exists()
    assert (remote / "objects/1.lock").exists()


def test_an_old_one_goes_after_a_second_glance(remote: Path, locks: StaleLocks) -> None:
    """Not at the first: a machine that slept, or whose clock was set, has old locks with a holder at work."""
    born(remote, 1000.0)
    locks.look(100.0, 1000.0 + OLD_SECONDS)
    locks.look(100.0 + GLANCE_SECONDS - 0.1, 1000.0 + OLD_SECONDS)
    assert there(remote) == {*LOCKS}
    locks.look(100.0 + GLANCE_SECONDS, 1000.0 + OLD_SECONDS)
    assert there(remote) == set()


@pytest.mark.parametrize(
    "again",
    [
        lambda path: os.utime(path, (1, 1)),
        lambda path: (path.rename(path.with_suffix(".old")), path.touch()),
    ],
)
def test_another_lock_at_the_same_place_begins_anew(
    remote: Path, locks: StaleLocks, again: Callable[[Path], object]
) -> None:
    """Somebody works there: it is not the one that was seen before."""
    path = remote / LOCKS[0]
    locks.look(100.0, 0.0)
    again(path)
    locks.look(100.0 + HELD_SECONDS, 0.0)
    assert there(remote) == {LOCKS[0]}
    locks.look(100.0 + 2 * HELD_SECONDS, 0.0)
    assert there(remote) == set()


def test_what_cannot_be_removed_is_tried_again(remote: Path, locks: StaleLocks) -> None:
    """At the next look, without a failure of the watcher."""
    path = remote / LOCKS[0]
    path.unlink()
    path.mkdir()  # a directory is not a lock of git's, and not ours to remove
    locks.look(100.0, 0.0)
    locks.look(100.0 + HELD_SECONDS, 0.0)
    assert there(remote) == {LOCKS[0]}
