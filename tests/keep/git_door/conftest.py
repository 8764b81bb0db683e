"""The git door, by real pushes from real clones."""

from __future__ import annotations

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
def short() -> Iterator[Path]:
    """Not tmp_path: a socket's path must be short."""
    with tempfile.TemporaryDirectory(prefix="mf-") as directory:
        yield Path(directory)


@pytest.fixture
def world(untouched: World, short: Path) -> Iterator[World]:
    """Autonomy is merge, and files are limited to `BLOB_BYTES`."""
    made = World(short, like=untouched)
    yield made
    made.close_door()


@pytest.fixture
def server(untouched: World, short: Path) -> Iterator[Server]:
    """The same world behind `git daemon`."""
    made = Server(short, untouched)
    yield made
    made.end()
