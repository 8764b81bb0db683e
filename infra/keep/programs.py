"""How a program of the keep is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from infra.shared.paths import ROOT


def keep_command(module: str, *words: str) -> list[str]:
    """`-P -s`: modules come from PYTHONPATH, which is the keep's root, never from the current directory."""
    return [sys.executable, "-s", "-P", "-m", module, *words]


def keep_environment(environ: Mapping[str, str] = os.environ, root: str = ROOT) -> dict[str, str]:
    """The whole environment of the keep's programs, whose code lies at `root`: no key of the PM's is in it."""
    kept = {name: environ[name] for name in ("HOME", "TMPDIR", "LANG") if name in environ}
    return kept | {"PATH": environ.get("PATH", "/usr/bin:/bin"), "PYTHONPATH": root}
