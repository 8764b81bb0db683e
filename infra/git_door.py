"""The git door: what of the agent's may land in the bare repository, and what a runner asks of the keep.

It answers requests (`shared.requests`) on one socket, and judges pushes, which git's hook asks about on another. The PM
pushes by path and meets no policy."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial

import structlog

from infra.keep import arguments, settings_file
from infra.keep.git_door.app import App
from infra.keep.git_door.caller import is_runner
from infra.keep.git_door.context import DoorContext
from infra.keep.git_door.record import WorkRecord
from infra.keep.git_door.setup import JUDGE
from infra.keep.git_door.tips import Watch
from infra.shared import sockets
from infra.shared.exit_codes import Exit
from infra.shared.log import log_as_json
from infra.shared.paths import Paths
from infra.shared.redacted_file import guard_stderr
from infra.shared.repository.git import Git, GitError

GIT_SECONDS = 5.0


def main(words: Sequence[str]) -> int:
    """Serve until SIGTERM."""
    given = arguments.parser("git_door", "Judge the agent's pushes, and answer its requests to the keep.").parse_args(
        words
    )
    places = arguments.places(given)
    log_as_json(structlog.PrintLoggerFactory(sys.stderr))
    log = structlog.get_logger()

    def cannot(reason: object, code: Exit) -> Exit:
        log.error("door.not_opened", reason=str(reason), exit=int(code))
        return code

    try:
        settings = settings_file.read_settings(given.settings)
        if problem := problem_with_repository(places.remote):
            return cannot(problem, Exit.NOT_FOUND)
        # The one that is waited for is the last.
        pushes, requests = listen_to_hooks(places), sockets.listen(places.git_socket)
    except settings_file.SettingsError as error:
        return cannot(error, Exit.CONFIG)
    except sockets.SocketTaken as error:
        return cannot(error, Exit.CONFLICT)
    except (OSError, ValueError) as error:
        return cannot(error, Exit.FAILURE)
    record = WorkRecord(places, log)
    try:
        record.begin()
    except (GitError, OSError) as error:
        log.error("record.not_marked", reason=str(error))
    app = App(DoorContext(places, settings, log, record=record), Watch(places.remote), partial(is_runner, places))
    asyncio.run(_serve(app, requests, pushes))
    log.info("door.closed")
    return Exit.OK


async def _serve(app: App, requests: socket.socket, pushes: socket.socket) -> None:
    leave = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, leave.set)
    await app.serve(leave, requests, pushes, lambda: structlog.get_logger().info("door.opened"))


def listen_to_hooks(places: Paths) -> socket.socket:
    """Raises OSError, SocketTaken."""
    door = f"{places.var}/door"
    os.makedirs(door, mode=0o700, exist_ok=True)
    directory = os.open(door, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return sockets.listen(f"/proc/self/fd/{directory}/{JUDGE}")  # a socket's path must be short
    finally:
        os.close(directory)


def problem_with_repository(remote: str) -> str | None:
    """Why `remote` cannot be the agent's bare repository; None when it can."""
    what_next = "'minifram init' makes one"
    if not os.path.isdir(remote):
        return f"no repository at {remote}; {what_next}"
    try:
        bare = Git(remote, env={"GIT_DIR": remote}).within(GIT_SECONDS)("rev-parse", "--is-bare-repository")
    except GitError as error:
        return f"{remote} is not a git repository ({error}); {what_next}"
    return None if bare == "true" else f"{remote} is a repository with a work tree, expected a bare one; {what_next}"


if __name__ == "__main__":
    guard_stderr()
    sys.exit(main(sys.argv[1:]))
