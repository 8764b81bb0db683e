from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cell.conftest import cell, template
from tests.faults.disks import Ext4
from tests.keep.supervision.conftest import make_agent

__all__ = ["cell", "make_agent", "template"]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4]:
    made = Ext4(tmp_path)
    made.mount()
    yield made
    made.unmount()
