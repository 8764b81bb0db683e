"""What rehearsals leave behind."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import structlog

from infra.keep.supervision import preparation
from infra.keep.supervision.preparation import Preparation
from infra.shared.identity import OURS
from infra.shared.paths import Paths

SECONDS = 0.5


def test_however_many_leftovers_there_are_the_watcher_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell can make them too. What there was no time for goes at the next starts."""
    monkeypatch.setattr(preparation, "REMOVE_SECONDS", SECONDS)
    monkeypatch.setattr(preparation, "SCRATCH_CHARS", 1000)
    for number in range(2000):
        (tmp_path / f".rehearsal-{number}").mkdir()
    places = cast(Paths, SimpleNamespace(bot=str(tmp_path)))

    began = time.monotonic()
    Preparation(places, OURS, structlog.stdlib.get_logger()).remove_leftovers()
    assert time.monotonic() - began < 5 * SECONDS
    assert len(list(tmp_path.iterdir())) < 2000
