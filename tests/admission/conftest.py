from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.admission.git_server import Server
from tests.admission.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """Autonomy is merge, and files are limited to `BLOB_BYTES`."""
    # Not tmp_path: a socket's path must be short.
    root = Path(tempfile.mkdtemp(prefix="minifram-door-"))
    yield World(root)
    shutil.rmtree(root)


@pytest.fixture
def server() -> Iterator[Server]:
    """The same world behind `git daemon`."""
    root = Path(tempfile.mkdtemp(prefix="minifram-door-"))
    server = Server(root)
    yield server
    server.end()
    shutil.rmtree(root)
