"""The limits at work: what is done about a real agent's logs and processes, and what the PM reads of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import structlog
from msgspec.structs import replace

from infra.keep.limits.judge import Bounds
from infra.keep.limits.watch import TOLD_SECONDS, LimitWatch
from infra.keep.supervision.decide.events import Event, MustEnd, Observed
from infra.keep.watcher_file import Runner
from infra.shared.identity import OURS
from infra.shared.paths import Paths

RUNNER = Runner(boot_id="b" * 32, branch="main", commit="c" * 40, pid=4242)
MIB = 1 << 20


class Watched:
    """An agent whose watcher's clock is ours."""

    def __init__(self, places: Paths, **bounds: float) -> None:
        self.log = Path(places.main_checkout, "logs/errors.log")
        limits = Bounds(**{"log_bytes": MIB, "free_bytes": 1, **bounds})  # type: ignore[arg-type]
        self.watch = LimitWatch(places, OURS, limits, structlog.get_logger())
        self.at = 0.0

    def look(self, seconds: float = 30.0, runner: Runner | None = RUNNER) -> list[Event]:
        self.at += seconds
        return self.watch.look(runner, self.at)

    def told(self) -> list[str]:
        return [event.title for event in self.look() if isinstance(event, Observed)]


@pytest.fixture
def watched(places: Paths) -> Watched:
    return Watched(places)


def test_the_pm_hears_of_the_same_thing_once_a_day(places: Paths) -> None:
    """A disk that stays short."""
    watched = Watched(places, free_bytes=1 << 60)
    assert [watched.told() for _ in range(3)] == [["a limit: disk"], [], []]
    watched.at += TOLD_SECONDS
    assert watched.told() == ["a limit: disk"]


def test_samples_have_their_time(watched: Watched) -> None:
    """Those of one boot are `sample_seconds` apart; another boot is looked at at once, and none is none."""
    assert watched.look(runner=None) == []
    watched.look()
    assert watched.watch.due == watched.at + 30
    watched.log.write_bytes(b"y" * 9 * MIB)
    assert watched.look(29.9) == []
    assert watched.look(0.0, replace(RUNNER, boot_id="d" * 32)) != []


def test_what_cannot_be_sampled_or_cut_ends_nobody(watched: Watched, places: Paths) -> None:
    """A log in a directory that the agent closed; no directory at all."""
    watched.log.write_bytes(b"y" * 4 * MIB)
    os.mkdir(f"{watched.log}.1")
    os.mkdir(f"{watched.log}.1/full")
    for _ in range(3):
        assert not any(isinstance(event, MustEnd) for event in watched.look())
    shutil.rmtree(places.bot)
    assert watched.look() == []
