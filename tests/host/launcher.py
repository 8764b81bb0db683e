"""`launcher.py PROJECT WATCHER words…`: the minifram command of PROJECT with a stand-in for the watcher."""

from __future__ import annotations

import functools
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from host.cli import main  # noqa: E402
from host.context import Context  # noqa: E402


def proof_by(script: str, *_: object) -> None:
    """A shell's word instead of a whole demo; it is told of Ctrl-C as a demo's commands are."""
    from host.agent.demo_agent import DemoFailed

    with subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, text=True) as process:
        try:
            said = process.communicate()[0]
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    if process.returncode:
        raise DemoFailed(said.strip())


if __name__ == "__main__":
    project, watcher, *words = sys.argv[1:]
    if "LAUNCH_WITH_FILES_OF_AT_MOST" in os.environ:  # bytes; what a full disk does to whoever writes
        most = int(os.environ["LAUNCH_WITH_FILES_OF_AT_MOST"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    program = (sys.executable, "-s", "-P", str(HERE / "stand_in.py"), watcher)
    agent = os.environ.get("MINIFRAM_AGENT") or "agent"
    network = os.environ.get("LAUNCH_WITH_NETWORK", "")
    script = os.environ.get("LAUNCH_WITH_PROOF", "")
    proof = functools.partial(proof_by, script) if script else None
    context = Context(dict(os.environ), os.getuid(), project, program, agent, network, proof)
    steady = float(os.environ.get("LAUNCH_WITH_STEADY", context.steady))
    sys.exit(main(words, context._replace(steady=steady)))
