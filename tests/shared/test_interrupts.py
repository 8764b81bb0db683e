"""Ctrl-C within and beside moments that must not be torn."""

from __future__ import annotations

import subprocess
import sys

TRIED = """
import signal
from infra.shared.interrupts import deferred_interrupts
ended = []
try:
    with deferred_interrupts():
        signal.raise_signal(signal.SIGINT)
        ended.append("moment")
    ended.append("after")
except KeyboardInterrupt:
    print(*ended, signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


def test_an_interrupt_waits_for_the_end_of_the_moment() -> None:
    """It is not lost, and the handler of before is back."""
    ran = subprocess.run([sys.executable, "-c", TRIED], capture_output=True, text=True, check=True)
    assert ran.stdout == "moment True\n"


def test_an_ignored_interrupt_stays_ignored() -> None:
    """As under nohup."""
    words = [sys.executable, "-c", f"{TRIED}print(*ended)"]
    ignoring = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *words], capture_output=True, text=True, check=True
    )
    assert ignoring.stdout == "moment after\n"
