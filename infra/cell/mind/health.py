"""What the runner sees of its own sandbox, and what is wrong with it. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

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
