"""One ordinary user for all tests that run containers, and the containers that most of them ask about."""

from __future__ import annotations

import pytest

from tests.sealed import rows
from tests.sealed.newer import podman5
from tests.sealed.project import project, user
from tests.sealed.rootless import Rootless

__all__ = ["podman5", "project", "user"]


@pytest.fixture(scope="session")
def cages(user: Rootless) -> rows.Cages:
    """Containers with and without fences."""
    return rows.Cages(user)


@pytest.fixture(scope="session")
def seen(cages: rows.Cages) -> rows.Seen:
    """What came of all attempts, which are made once."""
    return rows.look(cages)
