from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.egress.namespaces import Nets


@pytest.fixture(scope="session")
def nets() -> Iterator[Nets]:
    """One pair of namespaces for all tests; each loads the rules it needs."""
    if os.geteuid() != 0:
        pytest.skip("making namespaces with several users in them takes root")
    folder = Path(tempfile.mkdtemp(prefix="minifram-egress-"))
    os.chmod(folder, 0o777)  # the cell's user writes here, too
    made = Nets(folder)
    yield made
    made.end()
    shutil.rmtree(folder)


@pytest.fixture
def open_nets(nets: Nets) -> Iterator[Nets]:
    """With the rules as they are by default, freshly loaded."""
    nets.near.ask("load")
    nets.arrived()
    yield nets
    nets.hang_up()


@pytest.fixture
def bare_nets(nets: Nets) -> Iterator[Nets]:
    """Without rules."""
    nets.near.ask("unload")
    nets.arrived()
    yield nets
    nets.hang_up()
