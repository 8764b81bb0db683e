from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keep.git_door.world import Server, World


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world to be copied: making one takes ten processes of git."""
    made = World(tmp_path_factory.mktemp("door"))
    made.close_door()
    return made


@pytest.fixture
def world(untouched: World) -> Iterator[World]:
    """Autonomy is merge, and files are limited to `BLOB_BYTES`."""
    # Not tmp_path: a socket's path must be short.
    root = Path(tempfile.mkdtemp(prefix="minifram-door-"))
    made = World(root, like=untouched)
    yield made
    made.close_door()
    shutil.rmtree(root)


@pytest.fixture
def server(untouched: World) -> Iterator[Server]:
    """The same world behind `git daemon`."""
    root = Path(tempfile.mkdtemp(prefix="minifram-door-"))
    server = Server(root, untouched)
    yield server
    server.end()
    shutil.rmtree(root)
