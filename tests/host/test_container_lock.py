"""Who holds what while a container is at work: the watcher's lock seen from outside, and the commands' own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from host.container.control import alone
from host.errors import CommandError
from host.running import watcher as watching
from tests.host.desk import Desk

HOLDS = (
    "import fcntl, os, sys, time; held = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); "
    "fcntl.flock(held, fcntl.LOCK_EX); os.pwrite(held, b'1\\n', 0); print(flush=True); time.sleep(60)"
)


def test_a_watcher_in_a_container_is_found_by_the_lock_it_holds(tmp_path: Path) -> None:
    """It writes down the pid that it has inside, which is nobody's here, or somebody else's."""
    lock = str(tmp_path / "watcher.lock")
    assert watching.holder(lock, in_container=True) is None
    with subprocess.Popen([sys.executable, "-c", HOLDS, lock], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = watching.holder(lock), watching.holder(lock, in_container=True)
        process.kill()

    assert found == (watching.UNKNOWN, process.pid)
    assert watching.holder(lock, in_container=True) is None


def test_one_command_at_a_time_changes_a_container(desk: Desk) -> None:
    """The other is told to try again, and can once the first is done."""
    home = desk.home()
    with alone(home), pytest.raises(CommandError, match="try again") as refused, alone(home):
        pass
    assert refused.value.code == 75
    with alone(home):
        pass


def test_a_container_that_could_not_be_sealed_is_told_by_status(desk: Desk) -> None:
    """The keep writes down why; it stays until the seal holds."""
    refused = Path(desk.home().state, "refused.json")
    refused.write_text(json.dumps("no seccomp filter is in force"))

    assert "no seccomp filter is in force" in desk.run("status").out
    refused.write_text("{")
    assert desk.run("status").code == 3
    os.unlink(refused)
    assert "seccomp" not in desk.run("status").out
