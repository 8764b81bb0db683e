"""A new image is proved by the demo before any agent lives in it: the whole of it, watcher, doors, hop, two falls and
a rollback, played by a scratch agent, which is gone afterwards when all was seen and left for the PM when not.

`python -m host.container.proof VERSION [BASE]` is the program that plays it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from host.caller import Caller, this_process
from host.container import choice, control
from host.container.podman import Podman, PodmanError
from host.container.words import Image, names
from host.demo import Stage, play_whole
from host.homes import Home, home_of
from host.running import KEY_VARIABLE
from host.scene import DemoFailed, scene_in_container
from host.trouble import Trouble, as_trouble
from host.watching import Say
from infra.contract.exit_codes import Exit

PROOF_SECONDS = 1200.0
TELL_SECONDS = 10.0
CLEAR_SECONDS = 120.0
"""For a proof that is interrupted, to take its agent down."""


def prove(caller: Caller, home: Home, image: Image, base: str | None, say: Say) -> None:
    """Raises Trouble when the image is not good; what was seen stands in a file of the agent's on the host."""
    log = f"{home.data}/upgrade-proof.log"
    words = caller.proof or (sys.executable, "-s", "-P", "-m", "host.container.proof")
    # No key: a scratch agent costs nothing.
    environ = {name: value for name, value in caller.environ.items() if name != KEY_VARIABLE}
    say(f"proving {image.name} by the demo's life, with an agent that is made for that")
    with (
        open(log, "wb") as output,
        subprocess.Popen(
            [*words, image.version, *([base] if base else [])],
            cwd="/",
            env=environ | {"PYTHONPATH": caller.root},
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
        raise Trouble(
            Exit.FAILURE,
            f"the image {image.name} is not taken: its proof failed; {_reason(log, status)}. All of it stands in "
            f"{log}. The agent goes on in the container that it has",
        )
    say(f"{image.name} is proved")


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
    version, base = argv[0], argv[1] if len(argv) > 1 else None
    directory = Path(tempfile.mkdtemp(prefix="minifram-proof-"))
    scene = scene_in_container(directory, "podman", time.strftime(f"proof-%Y%m%d-%H%M%S-{os.getpid()}"), base)
    stage = Stage(sys.stdout)
    home = home_of(scene.agent, scene.env, os.getuid())
    try:
        podman = choice.podman_at_hand(this_process())
        play_whole(scene, stage, lambda: _check_version(podman, home, version))
        _clear(podman, home)
    except (DemoFailed, Trouble, PodmanError, OSError) as error:
        stage.title(f"FAILED: {as_trouble(error) or error}")
        stage.show(f"The scratch agent {scene.agent} is left: 'minifram logs --agent {scene.agent}', {directory}")
        return Exit.FAILURE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    shutil.rmtree(directory)
    return Exit.OK


def _check_version(podman: Podman, home: Home, version: str) -> None:
    """Proved is what is going to be taken."""
    found = control.look(podman, home)
    if found is None or found.version != version:
        raise DemoFailed(
            f"the scratch agent has the image {found.version if found else 'of no container'}, expected {version}; "
            "was minifram changed meanwhile? Try again"
        )


def _clear(podman: Podman, home: Home) -> None:
    for volume in (names(home.agent).bot, names(home.agent).state):
        podman("volume", "rm", "--force", volume)
    places = (home.data, home.state, os.path.dirname(home.settings), home.run)
    podman("unshare", "rm", "-rf", *places)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
