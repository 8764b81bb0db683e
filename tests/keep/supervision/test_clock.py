"""Time in which the watcher did not look counts for nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import time
from infra.keep.supervision.clock import WatchClock
clock = WatchClock()
began = clock.now()
print(flush=True)
input()
print(clock.now(1.0) - began)
"""


@pytest.mark.fault("F60")
def test_the_clock_stands_still_while_the_watcher_does() -> None:
    """Stopped for longer than it meant to wait; what counts is that, and a busy machine's two seconds."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        until = time.monotonic() + 3.5
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        while time.monotonic() < until:
            process.poll()
        os.kill(process.pid, signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert round(float(process.stdout.readline()), 3) == 3.0
