"""What the runner sees of its own sandbox, written once a day, and what is wrong with it."""

from __future__ import annotations

import os
import platform
from typing import Final

import msgspec

from infra.cell.mind.mind import MindContext
from infra.shared.clock import timestamp
from infra.shared.mind.layout import ROOT
from infra.shared.paths import CONTAINER
from infra.shared.redacted_file import RedactedFile

SELF_CHECK: Final = "logs/health/sandbox.json"
"""What the runner sees of its own sandbox; committed."""
LEAST_FREE: Final = 100 << 20


class SandboxFacts(msgspec.Struct, frozen=True):
    """Seen from inside, by the runner."""

    at: str = ""
    contained: bool = False
    """It runs in the container's paths."""
    system: str = ""
    """`Linux`."""
    uid: int = -1
    capabilities: int = 0
    """The effective set, as bits."""
    link: str = ""
    """Where `/agent` leads; empty when it is missing."""
    root_writable: bool = False
    mind_writable: bool = False
    remote_writable: bool = False
    """The files of the repository, which only the keep may write."""
    free_bytes: int = 0


def problems_with_sandbox(facts: SandboxFacts, expects_container: bool, mind: str) -> list[str]:
    """`mind`: where `/agent` has to lead in the container."""
    wrong = [] if facts.system == "Linux" else [f"the system is {facts.system or 'unknown'}, expected Linux"]
    if not facts.mind_writable:
        wrong.append("the mind cannot be written")
    if facts.free_bytes < LEAST_FREE:
        wrong.append(f"{facts.free_bytes >> 20} MiB free, expected {LEAST_FREE >> 20}")
    if expects_container:
        if not facts.contained:
            wrong.append("it does not run in the container")
        if facts.uid == 0 or facts.capabilities:
            wrong.append(f"uid {facts.uid} with capabilities {facts.capabilities:#x}, expected another uid and none")
        if facts.root_writable:
            wrong.append("the root file system can be written")
        if facts.remote_writable:
            wrong.append("the repository can be written")
        if facts.link and facts.link != mind:
            wrong.append(f"/agent leads to {facts.link}, expected {mind}")
    return wrong


def check_sandbox(context: MindContext) -> str:
    """Gives what was seen, in words. Raises OSError when it cannot be written."""
    facts = seen(context)
    path = f"{context.places.mind}/{SELF_CHECK}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    RedactedFile(path).replace(msgspec.json.format(msgspec.json.encode(facts), indent=1) + b"\n")
    return "; ".join(problems_with_sandbox(facts, facts.contained, context.places.mind)) or "as it should be"


def seen(context: MindContext) -> SandboxFacts:
    places = context.places
    disk = os.statvfs(places.mind)
    return SandboxFacts(
        at=timestamp(context.now()),
        contained=places == CONTAINER,
        system=platform.system(),
        uid=os.getuid(),
        capabilities=_capabilities(),
        link=os.path.realpath(ROOT) if os.path.islink(ROOT) else "",
        root_writable=not os.statvfs("/").f_flag & os.ST_RDONLY,
        mind_writable=os.access(places.mind, os.W_OK),
        remote_writable=os.access(places.remote, os.W_OK),
        free_bytes=disk.f_bavail * disk.f_frsize,
    )


def _capabilities() -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    return 0
