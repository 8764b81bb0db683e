"""The end of what nobody declared; in a process of its own, whose descendants they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

LEFT = """
import subprocess, sys
import psutil
from infra.cell.services.services import end_all_but
from infra.shared.subreaper import become_subreaper
become_subreaper()
sleep = [sys.executable, "-c", "import time; time.sleep(30)"]
kept = subprocess.Popen(sleep)
left = subprocess.Popen(sleep, start_new_session=True)
end_all_but(lambda: frozenset([kept.pid]))
print([child.pid for child in psutil.Process().children()] == [kept.pid], kept.poll())
kept.kill()
kept.wait()
"""


@pytest.mark.heavy
def test_what_nobody_declared_is_ended() -> None:
    """However it got away; what is kept is left alone."""
    ended = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.stdout, ended.stderr) == ("True None\n", "")


REAP = """
import os, subprocess, sys, threading, time
from infra.cell.services.services import reap

kept = []

def start():
    kept.append(subprocess.Popen(["true"]))  # one that is dropped is waited for
    return kept[-1].pid

pids = [start(), start()]
thread = threading.Thread(target=lambda: pids.append(start()))
thread.start()
thread.join()
for pid in pids:
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
lives = subprocess.Popen(["sleep", "60"])
reap(lambda: frozenset(pids[:1]))
left = open("/proc/self/task/%d/children" % os.getpid()).read().split()
print(left == [str(pids[0]), str(lives.pid)])
lives.kill()
"""


@pytest.mark.heavy
def test_of_the_children_that_have_died_those_that_nobody_waits_for_are_reaped() -> None:
    """Whichever thread began them; a service is left to who keeps it, and what lives is left alone."""
    ended = subprocess.run([sys.executable, "-c", REAP], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.stdout, ended.returncode) == ("True\n", 0), ended.stderr
