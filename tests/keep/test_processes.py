"""The end of all that a user runs, however it resists."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from infra.keep.services.processes import signal_all_of
from infra.shared.identity import Identity

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(60)]
WHO = Identity(61_987, 61_987)
"""Nobody else's in these tests: all of its processes are ended."""
RESISTS = f"""import os, signal
os.setresgid({WHO.gid}, {WHO.gid}, {WHO.gid}), os.setresuid({WHO.uid}, {WHO.uid}, {WHO.uid})
print("ready", flush=True)
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
"""


@pytest.mark.attack("S20")
def test_who_is_ended_cannot_stop_the_one_that_ends_it() -> None:
    """A process that stops all that it may signal would otherwise hold the watcher for ever."""
    for _ in range(10):
        with subprocess.Popen([sys.executable, "-c", RESISTS], stdout=subprocess.PIPE) as resisting:
            assert resisting.stdout
            resisting.stdout.readline()
            signal_all_of(WHO, signal.SIGKILL)
            assert resisting.wait(10) == -signal.SIGKILL
