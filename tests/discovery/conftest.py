"""What the tests of discovery share: their user, and a site with its container."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.sealed.rootless import Rootless
from tests.discovery.fake import Fake
from tests.discovery.site import Site, site
from tests.sealed.fixtures import user

__all__ = ["user"]


@pytest.fixture(scope="module")
def place(user: Rootless) -> Iterator[Site]:
    """The folder and its container, without a network; one for the tests of a module."""
    with site(user) as made:
        yield made


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """A stand-in for an engine and its container."""
    return Fake(tmp_path)
