"""The end of what nobody declared; in a process of its own, whose descendants they are."""

from __future__ import annotations

import subprocess
import sys

CHAIN = """
import os, time
until = time.monotonic() + 3
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.002)
"""
END = f"""
import subprocess, sys, time
import psutil
from infra.cell.services.processes import end_all_but
from infra.shared.subreaper import become_subreaper
become_subreaper()
subprocess.run([sys.executable, "-c", {CHAIN!r}])
end_all_but(frozenset)
time.sleep(0.2)
print(psutil.Process().children())
"""


def test_processes_that_start_each_other_and_end_do_not_get_away() -> None:
    """Each lives shorter than a look at all processes takes."""
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", END], capture_output=True, text=True, check=False, timeout=60)
        assert (ended.stdout, ended.stderr) == ("[]\n", "")
