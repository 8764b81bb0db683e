"""One ordinary user for all tests that run containers, and the containers that most of them ask about."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sealed import rootless, rows
from tests.sealed.rootless import Rootless


@pytest.fixture(scope="session")
def user() -> Iterator[Rootless]:
    """An ordinary user who may run containers; without podman the tests fail and say what to install."""
    try:
        with rootless.prepared() as prepared:
            yield prepared
    except rootless.Unprepared as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def cages(user: Rootless) -> rows.Cages:
    """Containers with and without fences."""
    return rows.Cages(user)


@pytest.fixture(scope="session")
def seen(cages: rows.Cages) -> rows.Seen:
    """What came of all attempts, which are made once."""
    return rows.look(cages)
