"""The container of an agent's browser: chromium, the program that starts it (`infra/keep/eye/parent.py`), and nothing
of the agent's. It is there before the agent's container starts, and goes away with it."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from host.container.machine import Machine
from host.container.podman import Podman
from host.container.words import (
    EYE,
    HOME,
    MIB,
    TMP_BYTES,
    bound,
    eye_name,
    fences,
    limited,
    scratch,
    shared_directory,
)
from host.errors import failure
from host.home import AgentPaths
from infra.keep.settings.schema import Settings
from infra.shared.paths import EYE_SOCKET

USER = 970
"""`web` in the agent's image: its group alone has a way to the socket."""
NEEDED = ("clone", "unshare", "chroot")
"""Calls with which chromium makes its own sandbox: without them it does not start."""
START_SECONDS, POLL_SECONDS = 20.0, 0.02


def profile(of: Mapping[str, Any]) -> dict[str, Any]:
    """The agent's seccomp profile with what a browser needs beyond it."""
    rules = [rule for rule in of["syscalls"] if rule["names"] != ["clone"]]
    return {**of, "syscalls": [*rules, {"names": [*NEEDED], "action": "SCMP_ACT_ALLOW", "args": []}]}


def eye_words(home: AgentPaths, settings: Settings, machine: Machine, image: str, seccomp: str) -> list[str]:
    """Behind `podman`, all that makes and starts it."""
    browsers = settings.web.pool_size
    processes = 256 + 256 * browsers
    return [
        "run",
        "--detach",
        f"--name={eye_name(home.agent)}",
        f"--label={HOME}={home.data}",
        *fences(seccomp, "none", USER, ()),
        *limited(machine, settings, processes, processes, (512 + 512 * browsers) * MIB),
        scratch("/tmp", 0o1777, TMP_BYTES),  # noqa: S108 - the container's own
        bound(machine, shared_directory(home), EYE, "rw,noexec"),
        image,
    ]


def start(podman: Podman, machine: Machine, home: AgentPaths, settings: Settings, image: str, root: str) -> None:
    """And wait until it listens; there is no earlier one any more. Raises CommandError."""
    place = shared_directory(home)
    os.mkdir(place)
    os.chmod(place, 0o770)  # noqa: S103 - its group is the browser's, below
    podman("unshare", "chown", f"0:{USER}", place)
    with open(f"{root}/podman/seccomp.json", "rb") as file:
        changed = json.dumps(profile(json.load(file)))
    with tempfile.NamedTemporaryFile("w", dir=home.run, suffix=".json") as seccomp:  # podman keeps what is in it
        seccomp.write(changed)
        seccomp.flush()
        podman(*eye_words(home, settings, machine, image, seccomp.name))
    deadline = time.monotonic() + START_SECONDS
    while not os.path.lexists(f"{place}/{os.path.basename(EYE_SOCKET)}"):
        if time.monotonic() > deadline:
            said = podman("logs", "--tail=5", eye_name(home.agent), merged=True)
            raise failure(f"the browser's container has not begun to listen within {START_SECONDS:g} s: {said}")
        time.sleep(POLL_SECONDS)
    os.chmod(place, 0o550)  # noqa: S103 - who takes the browser over is not to fill the PM's memory
