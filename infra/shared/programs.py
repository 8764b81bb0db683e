"""How a program of the keep is started."""

from __future__ import annotations

import os
import sys

from infra.shared.paths import ROOT


def keep_command(module: str, *words: str) -> list[str]:
    """`-P -s`: modules come from PYTHONPATH, which is the keep's root, never from the current directory."""
    return [sys.executable, "-s", "-P", "-m", module, *words]


def keep_environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in os.environ}
    return kept | {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "PYTHONPATH": ROOT}
