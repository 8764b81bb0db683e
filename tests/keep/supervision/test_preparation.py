"""What rehearsals leave behind."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import structlog

from infra.keep.supervision.preparation import Preparation
from infra.shared.identity import OURS
from infra.shared.paths import Paths

SECONDS = 0.5


@pytest.fixture
def short_path() -> Iterator[Path]:
    """The leftovers of an agent at a longer one lie elsewhere."""
    with tempfile.TemporaryDirectory(prefix="mf-") as made:
        yield Path(made)


def test_however_many_leftovers_there_are_the_watcher_starts(short_path: Path) -> None:
    """The cell can make them too. What there was no time for goes at the next starts."""
    for number in range(2000):
        (short_path / f".rehearsal-{number}").mkdir()
    places = cast(Paths, SimpleNamespace(bot=str(short_path)))

    began = time.monotonic()
    Preparation(places, OURS, structlog.stdlib.get_logger()).remove_leftovers(SECONDS)
    assert time.monotonic() - began < 5 * SECONDS
    assert len(list(short_path.iterdir())) < 2000
