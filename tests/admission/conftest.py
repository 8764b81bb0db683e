from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admission.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """Autonomy is merge, and files are limited to `BLOB_BYTES`."""
    # Not tmp_path: a socket's path must be short.
    root = Path(tempfile.mkdtemp(prefix="minifram-door-"))
    yield World(root)
    shutil.rmtree(root)
