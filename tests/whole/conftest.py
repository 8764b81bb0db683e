from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.whole.owner import Owner


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    """A PM whose agent is taken down afterwards, whatever happened."""
    made = Owner(tmp_path)
    yield made
    made.close()
