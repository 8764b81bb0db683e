"""The git door: what of the agent's may land in the bare repository, and what a runner asks of the keep.

It answers requests (`shared.requests`) on one socket, and judges pushes, which git's hook asks about on another. The PM
pushes by path and meets no policy."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from functools import partial

import structlog

from infra.keep import arguments, sockets
from infra.keep.door_server import keep_beating, not_opened
from infra.keep.git_door.app import App
from infra.keep.git_door.caller import is_runner
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.setup import JUDGE
from infra.keep.git_door.tips import Watch
from infra.keep.log import log_to_stderr
from infra.keep.settings.check import read_settings
from infra.shared import heart
from infra.shared.exit_codes import Exit
from infra.shared.paths import Paths
from infra.shared.redacted_file import guard_stderr


def main(words: Sequence[str]) -> int:
    """Serve until SIGTERM."""
    given = arguments.parser("git_door", "Judge the agent's pushes, and answer its requests to the keep.").parse_args(
        words
    )
    places = arguments.places(given)
    beating = heart.inherited(os.environ)
    log_to_stderr()
    log = structlog.get_logger()

    try:
        settings = read_settings(given.settings)
        # The one that is waited for is the last.
        pushes, requests = listen_to_hooks(places), sockets.listen(places.git_socket)
    except (OSError, ValueError, sockets.SocketTaken) as error:
        return not_opened(error)
    context = DoorContext(places, settings, log)
    context.record.begin()
    app = App(context, Watch(places.remote), partial(is_runner, places))
    log.info("door.opened")
    asyncio.run(app.serve(requests, pushes, partial(keep_beating, beating)))
    log.info("door.closed")
    return Exit.OK


def listen_to_hooks(places: Paths) -> socket.socket:
    """Raises OSError, SocketTaken."""
    door = f"{places.var}/door"
    os.makedirs(door, mode=0o700, exist_ok=True)
    directory = os.open(door, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return sockets.listen(f"/proc/self/fd/{directory}/{JUDGE}")  # a socket's path must be short
    finally:
        os.close(directory)


if __name__ == "__main__":
    guard_stderr()
    sys.exit(main(sys.argv[1:]))
