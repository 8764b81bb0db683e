"""The scripts of `discovery/`, run as programs of this Python with its standard library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from host.errors import CommandError, failure, not_found

FOLDER = "discovery"
SECONDS = 900.0
MAIN, SCORER, COMPARE, WORLD = "orchestrator/main.py", "scoring/scorer.py", "scoring/compare.py", "scoring/world.py"


def words(root: str, script: str, *given: str) -> list[str]:
    """The command that runs `script`."""
    return [sys.executable, "-s", f"{root}/{FOLDER}/{script}", *given]


def output(root: str, script: str, *given: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """What it prints on stdout and on stderr. Raises CommandError when it fails; then its own words say why."""
    try:
        ended = subprocess.run(
            words(root, script, *given),
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise failure(f"{script} has not ended within {SECONDS:g} s") from None
    if ended.returncode:
        raise _failed(script, ended)
    return ended.stdout, ended.stderr


def _failed(script: str, ended: subprocess.CompletedProcess[str]) -> CommandError:
    said = ended.stderr.strip()
    if "can't open file" in said:
        return not_found(f"the project is not whole: {FOLDER}/{script} is missing; install minifram again")
    name = script.rpartition("/")[2]
    return failure(
        said[-2000:].removeprefix(f"{name}: ") or f"{script} ended with {ended.returncode}, and said nothing"
    )
