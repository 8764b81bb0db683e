"""One ordinary user for all tests that run containers, and the containers that most of them ask about."""

from __future__ import annotations

import pickle

import pytest

from tests.sealed import rows
from tests.sealed.fixtures import project, user
from tests.sealed.support.cages import Cages
from tests.sealed.support.rootless import Rootless

__all__ = ["project", "user"]


@pytest.fixture(scope="session")
def cages(user: Rootless) -> Cages:
    """Containers with and without fences."""
    return Cages(user, rows.PROGRAMS)


@pytest.fixture(scope="session")
def seen(cages: Cages) -> rows.Seen:
    """What came of all attempts, which are made once."""
    file = cages.user.scratch / "seen.pickle"
    cages.user.once("seen", lambda: file.write_bytes(pickle.dumps(rows.look(cages))))
    found: rows.Seen = pickle.loads(file.read_bytes())
    return found
