"""One desk for each test; what a test left running on it is ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from host import running as watching
from tests.cell.loop.waiting import wait_for
from tests.host.container_desk import Workshop
from tests.host.desk import Desk
from tests.sealed.fixtures import project, user
from tests.sealed.support.project import Project

__all__ = ["project", "user"]


@pytest.fixture
def bare_desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk without an agent."""
    desk = Desk(tmp_path)
    desk.write_project()
    yield desk
    for agent in ("agent", "second"):
        _end(desk.home(agent).places.watcher_lock)


@pytest.fixture(scope="session")
def born(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A desk with an initialised agent, to be copied: no path stands in what init makes."""
    desk = Desk(tmp_path_factory.mktemp("born"))
    desk.write_project()
    desk.done("init", "--sandbox", "process")
    return desk


@pytest.fixture
def desk(bare_desk: Desk, born: Desk) -> Desk:
    """A desk with an initialised agent."""
    bare_desk.like(born)
    return bare_desk


@pytest.fixture(scope="session")
def workshop(project: Project) -> Workshop:
    """What all tests with containers share."""
    return Workshop(project)


def _end(lock: str) -> None:
    pid = watching.holder(lock)
    if pid:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: watching.holder(lock) is None, "its end")
