"""`launcher.py PROJECT WATCHER words…`: the minifram command of PROJECT with a stand-in for the watcher."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from host.cli import main  # noqa: E402
from host.context import Context  # noqa: E402

if __name__ == "__main__":
    project, watcher, *words = sys.argv[1:]
    if "LAUNCH_WITH_FILES_OF_AT_MOST" in os.environ:  # bytes; what a full disk does to whoever writes
        most = int(os.environ["LAUNCH_WITH_FILES_OF_AT_MOST"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    program = (sys.executable, "-s", "-P", str(HERE / "stand_in.py"), watcher)
    agent = os.environ.get("MINIFRAM_AGENT") or "agent"
    network = os.environ.get("LAUNCH_WITH_NETWORK", "")
    script = os.environ.get("LAUNCH_WITH_PROOF", "")
    proof = ("/bin/sh", "-c", script) if script else ()
    context = Context(dict(os.environ), os.getuid(), project, program, agent, network, proof)
    steady = float(os.environ.get("LAUNCH_WITH_STEADY", context.steady))
    sys.exit(main(words, context._replace(steady=steady)))
