"""What the tests with containers share: their user, and a copy of the project that this user can run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.sealed import rootless
from bench.sealed.project import Project
from bench.sealed.rootless import Rootless


@pytest.fixture(scope="session")
def user(request: pytest.FixtureRequest) -> Iterator[Rootless]:
    """An ordinary user who may run containers, with one scratch directory for all workers of a run; without podman the
    tests fail and say what to install."""
    run = getattr(request.config, "workerinput", {}).get("testrunuid", "")
    try:
        with rootless.prepared(run) as prepared:
            yield prepared
    except rootless.Unprepared as missing:
        pytest.fail(str(missing), pytrace=False)


@pytest.fixture(scope="session")
def project(user: Rootless) -> Project:
    """A copy of the project, made once."""
    return Project(user)
