"""The container's loopback device, over which the cell speaks to the git daemon: short questions and short answers.

There TCP's delayed acknowledgement (RFC 1122 §4.2.3.2, 40 ms on Linux) costs more than all of git's own work for a
small push, and saves nothing."""

from __future__ import annotations

import subprocess

ROUTES = ("local 127.0.0.0/8", "local 127.0.0.1")
"""Of the table `local`, as the kernel makes them when lo comes up."""
SECONDS = 10.0


def answer_at_once() -> None:
    """Acknowledge without delay on lo (ip-route(8), quickack); needs CAP_NET_ADMIN. A failure only makes pushes slower,
    so it is ignored."""
    for route in ROUTES:
        words = f"route change table local {route} dev lo proto kernel scope host src 127.0.0.1 quickack 1"
        try:
            subprocess.run(["ip", *words.split()], capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return
