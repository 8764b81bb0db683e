"""What is wrong with the runner's sandbox, as it sees it from inside; written once a day, for `minifram doctor`."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

import msgspec

from infra.cell.cell import Cell
from infra.cell.mind.memory import write
from infra.shared.clock import timestamp
from infra.shared.mind.layout import ROOT
from infra.shared.paths import CONTAINER

SELF_CHECK: Final = "logs/health/sandbox.json"
LEAST_FREE: Final = 100 << 20


class SelfCheck(msgspec.Struct, frozen=True):
    """The file, which is committed."""

    at: str
    problems: list[str]


class Sandbox(NamedTuple):
    in_container: bool
    uid: int
    capabilities: int
    """The effective set, as bits."""
    link: str
    """Where `/agent` leads; empty when it is missing."""
    root_writable: bool
    remote_writable: bool
    free_bytes: int


def problems_with(seen: Sandbox) -> list[str]:
    """Outside the container only room is expected."""
    in_container = {
        f"uid {seen.uid} with capabilities {seen.capabilities:#x}": seen.uid == 0 or seen.capabilities != 0,
        "the root file system can be written": seen.root_writable,
        "the repository can be written": seen.remote_writable,
        f"/agent leads to {seen.link}, expected {CONTAINER.mind}": seen.link not in ("", CONTAINER.mind),
    }
    wrong = {f"{seen.free_bytes >> 20} MiB free, expected {LEAST_FREE >> 20}": seen.free_bytes < LEAST_FREE}
    return [words for words, is_so in (wrong | (in_container if seen.in_container else {})).items() if is_so]


def check_sandbox(cell: Cell) -> str:
    """Gives what is wrong, in words. Raises OSError when it cannot be written."""
    places = cell.boot.places
    disk = os.statvfs(places.mind)
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)", file.read(), re.MULTILINE)
    seen = Sandbox(
        in_container=places == CONTAINER,
        uid=os.getuid(),
        capabilities=int(capabilities[1], 16) if capabilities else 0,
        link=os.path.realpath(ROOT) if os.path.islink(ROOT) else "",
        root_writable=not os.statvfs("/").f_flag & os.ST_RDONLY,
        remote_writable=os.access(places.remote, os.W_OK),
        free_bytes=disk.f_bavail * disk.f_frsize,
    )
    check = msgspec.json.encode(SelfCheck(timestamp(cell.wall()), problems_with(seen)))
    write(places.mind, SELF_CHECK, msgspec.json.format(check, indent=1).decode() + "\n")
    return "; ".join(problems_with(seen)) or "as it should be"
