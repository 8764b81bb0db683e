"""What the tests with containers share: their user, and a copy of the project that this user can run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.sealed.support import rootless
from tests.sealed.support.project import Project
from tests.sealed.support.rootless import Rootless

SEARCHES_NO_LISTS = """#!/bin/sh
[ "$1" = --search ] && exit 1
exec {there} "$@"
"""
"""For dpkg-query. `podman info`, which most of our commands call, has it search the lists of all packages for each of
podman's helpers: that takes longer than all the rest of it, and nobody reads what it finds."""


@pytest.fixture(scope="session")
def user(request: pytest.FixtureRequest) -> Iterator[Rootless]:
    """An ordinary user who may run containers, with one scratch directory for all workers of a run; without podman the
    tests fail and say what to install."""
    run = getattr(request.config, "workerinput", {}).get("testrunuid", "")
    try:
        with rootless.prepared(run) as prepared:
            yield _with_quick_info(prepared)
    except rootless.Unprepared as missing:
        pytest.fail(str(missing), pytrace=False)


def _with_quick_info(user: Rootless) -> Rootless:
    programs, there = user.scratch / "programs", shutil.which("dpkg-query")

    def write() -> None:
        programs.mkdir()
        (programs / "dpkg-query").write_text(SEARCHES_NO_LISTS.format(there=there))
        for path in (programs, programs / "dpkg-query"):
            path.chmod(0o755)

    if there:
        user.once("programs", write)
    return replace(user, programs=programs)


@pytest.fixture(scope="session")
def project(user: Rootless) -> Project:
    """A copy of the project, made once."""
    return Project(user)
