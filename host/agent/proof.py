"""A new image is proved by the demo before any agent lives in it: the whole of it, watcher, doors, hop, two falls and
a rollback, played by a scratch agent. It is gone afterwards when all was seen, else left until the next proof."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from host.agent.demo import Narration, play_whole
from host.agent.demo_agent import DemoFailed, demo_agent
from host.container import control
from host.container.podman import Podman
from host.container.words import Image, names
from host.context import Context
from host.display import Say
from host.errors import CommandError, as_command_error
from host.paths import AgentPaths, paths_of
from infra.shared.exit_codes import Exit


def prove(context: Context, home: AgentPaths, podman: Podman, image: Image, base: str | None, say: Say) -> None:
    """Raises CommandError when the image is not good; what was seen stands in a file of the agent's on the host."""
    log, directory = f"{home.data}/upgrade-proof.log", f"{home.data}/upgrade-proof"
    agent = scratch_of(home)
    scratch = paths_of(agent, context.environ, context.uid)
    say(f"proving {image.name} by the demo's life, with an agent that is made for that; this takes about two minutes")
    with _alone_with(log, home) as output:
        shutil.rmtree(directory, ignore_errors=True)
        story = Narration(output, say)
        played = demo_agent(Path(directory), "podman", context.environ, agent, base)
        try:
            _clear(podman, scratch)
            (context.proof or play_whole)(played, story, lambda: _check_version(podman, scratch, image))
            _clear(podman, scratch)
        except (DemoFailed, CommandError, OSError) as error:
            why = as_command_error(error) or error
            story.title(f"FAILED: {why}")
            story.show(f"Left until the next proof: {directory}, and the agent: 'minifram logs --agent {agent}'")
            raise CommandError(
                Exit.FAILURE,
                f"the image {image.name} is not taken: its proof failed; {why}. All of it stands in {log}. "
                "The agent goes on in the container that it has",
            ) from None
        shutil.rmtree(directory)
    say(f"{image.name} is proved")


def scratch_of(home: AgentPaths) -> str:
    """The name of the agent that proves images for this one."""
    return f"proof-{hashlib.sha256(home.data.encode(errors='surrogateescape')).hexdigest()[:12]}"


@contextlib.contextmanager
def _alone_with(log: str, home: AgentPaths) -> Iterator[TextIO]:
    """The file, empty and locked. Raises CommandError while another proof writes it."""
    with open(log, "a", encoding="utf-8", errors="replace") as output:
        try:
            fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"an image is being proved for agent {home.agent!r} already ({log}); try again"
            raise CommandError(Exit.TRY_AGAIN, text) from None
        output.truncate(0)
        yield output


def _check_version(podman: Podman, home: AgentPaths, image: Image) -> None:
    """Proved is what is going to be taken."""
    found = control.look(podman, home)
    if found is None or found.version != image.version:
        raise DemoFailed(
            f"the scratch agent has the image {found.version if found else 'of no container'}, expected "
            f"{image.version}; was minifram changed meanwhile? Try again"
        )


def _clear(podman: Podman, home: AgentPaths) -> None:
    """All of the scratch agent, also of one whose proof was killed."""
    control.remove(podman, home)
    for volume in (names(home.agent).bot, names(home.agent).state):
        podman("volume", "rm", "--force", volume)
    podman("unshare", "rm", "-rf", home.data, home.state, os.path.dirname(home.settings), home.run)
