"""What the runner sees of its own sandbox: written once a day, which the PM's `doctor` judges."""

from __future__ import annotations

import os
import platform

import msgspec

from infra.cell.mind.health import SELF_CHECK, SandboxFacts, problems_with_sandbox
from infra.cell.mind.mind import MindContext
from infra.shared.clock import timestamp
from infra.shared.mind.layout import ROOT
from infra.shared.paths import CONTAINER
from infra.shared.redacted_file import RedactedFile


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
