"""What the runner sees of its own sandbox, written once a day, and what is wrong with it."""

from __future__ import annotations

import os
import platform
import re
from typing import Final

import msgspec

from infra.cell.cell import Cell
from infra.cell.mind.memory import write
from infra.shared.clock import timestamp
from infra.shared.mind.layout import ROOT
from infra.shared.paths import CONTAINER

SELF_CHECK: Final = "logs/health/sandbox.json"
"""What the runner sees of its own sandbox; committed."""
LEAST_FREE: Final = 100 << 20


class SandboxFacts(msgspec.Struct, frozen=True):
    """Seen from inside, by the runner."""

    at: str = ""
    contained: bool = False
    """It runs in the container's paths."""
    system: str = ""
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
    who = f"uid {facts.uid} with capabilities {facts.capabilities:#x}"
    wrong = {
        f"the system is {facts.system or 'unknown'}, expected Linux": facts.system != "Linux",
        "the mind cannot be written": not facts.mind_writable,
        f"{facts.free_bytes >> 20} MiB free, expected {LEAST_FREE >> 20}": facts.free_bytes < LEAST_FREE,
    }
    in_container = {
        "it does not run in the container": not facts.contained,
        f"{who}, expected another uid and none": facts.uid == 0 or facts.capabilities != 0,
        "the root file system can be written": facts.root_writable,
        "the repository can be written": facts.remote_writable,
        f"/agent leads to {facts.link}, expected {mind}": facts.link not in ("", mind),
    }
    wrong |= in_container if expects_container else {}
    return [words for words, is_so in wrong.items() if is_so]


def check_sandbox(cell: Cell) -> str:
    """Gives what was seen, in words. Raises OSError when it cannot be written."""
    facts = seen(cell)
    write(cell.boot.places.mind, SELF_CHECK, msgspec.json.format(msgspec.json.encode(facts), indent=1).decode() + "\n")
    return "; ".join(problems_with_sandbox(facts, facts.contained, cell.boot.places.mind)) or "as it should be"


def seen(cell: Cell) -> SandboxFacts:
    places = cell.boot.places
    disk = os.statvfs(places.mind)
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)", file.read(), re.MULTILINE)
    return SandboxFacts(
        at=timestamp(cell.wall()),
        contained=places == CONTAINER,
        system=platform.system(),
        uid=os.getuid(),
        capabilities=int(capabilities[1], 16) if capabilities else 0,
        link=os.path.realpath(ROOT) if os.path.islink(ROOT) else "",
        root_writable=not os.statvfs("/").f_flag & os.ST_RDONLY,
        mind_writable=os.access(places.mind, os.W_OK),
        remote_writable=os.access(places.remote, os.W_OK),
        free_bytes=disk.f_bavail * disk.f_frsize,
    )
