"""A new image is proved by the demo before any agent lives in it: the whole of it, watcher, doors, hop, two falls and
a rollback, played by a scratch agent, gone afterwards when all was seen, else left until the next proof.

`python -m host.agent.proof VERSION AGENT DIRECTORY [BASE]` is the program that plays it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

from host.agent.demo import Stage, play_whole
from host.agent.demo_scene import DemoFailed, scene_in_container
from host.container import choice, control
from host.container.podman import Podman, PodmanError
from host.container.words import Image, names
from host.context import Context, this_process
from host.display import Say
from host.errors import CommandError, as_command_error
from host.paths import AgentPaths, paths_of
from infra.shared.exit_codes import Exit
from infra.shared.providers import VARIABLES

PROOF_SECONDS = 1200.0
TELL_SECONDS = 10.0
CLEAR_SECONDS = 120.0
"""For a proof that is interrupted, to take its agent down."""


def prove(context: Context, home: AgentPaths, image: Image, base: str | None, say: Say) -> None:
    """Raises CommandError when the image is not good; what was seen stands in a file of the agent's on the host."""
    log = f"{home.data}/upgrade-proof.log"
    scratch = scratch_of(home)
    words = context.proof or (sys.executable, "-s", "-P", "-m", "host.agent.proof")
    # No key: a scratch agent costs nothing.
    environ = {name: value for name, value in context.environ.items() if name not in VARIABLES}
    say(f"proving {image.name} by the demo's life, with an agent that is made for that")
    with (
        _alone_with(log, home) as output,
        subprocess.Popen(
            [*words, image.version, scratch, f"{home.data}/upgrade-proof", *([base] if base else [])],
            cwd="/",
            env=environ | {"PYTHONPATH": context.root},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # so that Ctrl-C reaches it once, by us
        ) as process,
    ):
        try:
            status = _waited_for(process, say)
        except BaseException:
            _interrupt(process)
            raise
    if status:
        raise CommandError(
            Exit.FAILURE,
            f"the image {image.name} is not taken: its proof failed; {_reason(log, status)}. All of it stands in "
            f"{log}. The agent goes on in the container that it has",
        )
    say(f"{image.name} is proved")


def scratch_of(home: AgentPaths) -> str:
    """The name of the agent that proves images for this one."""
    return f"proof-{hashlib.sha256(home.data.encode(errors='surrogateescape')).hexdigest()[:12]}"


def _alone_with(log: str, home: AgentPaths) -> BinaryIO:
    """The file, empty and locked: the program inherits it, so the lock is there as long as a proof goes on, also one
    whose command was killed. Raises CommandError."""
    output = open(log, "ab")  # noqa: SIM115 - whoever calls closes it
    try:
        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
        output.truncate(0)
    except BlockingIOError:
        output.close()
        raise CommandError(
            Exit.TRY_AGAIN, f"an image is being proved for agent {home.agent!r} already ({log}); try again"
        ) from None
    return output


def _waited_for(process: subprocess.Popen[bytes], say: Say) -> int:
    began = time.monotonic()
    while True:
        try:
            return process.wait(TELL_SECONDS)
        except subprocess.TimeoutExpired:
            spent = time.monotonic() - began
            if spent > PROOF_SECONDS:
                _interrupt(process)
                return int(Exit.FAILURE)
            say(f"still proving, {spent:.0f} s so far")


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(CLEAR_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _reason(log: str, status: int) -> str:
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    failed = [line for line in lines if "FAILED: " in line]
    return failed[-1].partition("FAILED: ")[2] if failed else f"it ended with {status}: {' '.join(lines[-3:])[-500:]}"


# --- the program ---------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    version, agent, directory, *base = argv
    shutil.rmtree(directory, ignore_errors=True)
    scene = scene_in_container(Path(directory), "podman", agent, base[0] if base else None)
    stage = Stage(sys.stdout)
    home = paths_of(agent, scene.env, os.getuid())
    try:
        podman = choice.podman_at_hand(this_process())
        _clear(podman, home)
        play_whole(scene, stage, lambda: _check_version(podman, home, version))
        _clear(podman, home)
    except (DemoFailed, CommandError, PodmanError, OSError) as error:
        stage.title(f"FAILED: {as_command_error(error) or error}")
        stage.show(f"Left until the next proof: the agent {agent} ('minifram logs --agent {agent}') and {directory}")
        return Exit.FAILURE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    shutil.rmtree(directory)
    return Exit.OK


def _check_version(podman: Podman, home: AgentPaths, version: str) -> None:
    """Proved is what is going to be taken."""
    found = control.look(podman, home)
    if found is None or found.version != version:
        raise DemoFailed(
            f"the scratch agent has the image {found.version if found else 'of no container'}, expected {version}; "
            "was minifram changed meanwhile? Try again"
        )


def _clear(podman: Podman, home: AgentPaths) -> None:
    """All of the scratch agent, also of one whose proof was killed."""
    control.remove(podman, home)
    for volume in (names(home.agent).bot, names(home.agent).state):
        podman("volume", "rm", "--force", volume)
    places = (home.data, home.state, os.path.dirname(home.settings), home.run)
    podman("unshare", "rm", "-rf", *places)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
