"""What the tests of discovery share: their user, and a site with its container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.sealed.rootless import Rootless
from tests.discovery.site import Site, site
from tests.sealed.fixtures import user

__all__ = ["user"]


@pytest.fixture(scope="module")
def place(user: Rootless) -> Iterator[Site]:
    """The folder and its container, without a network; one for the tests of a module."""
    with site(user) as made:
        yield made
