"""The web door: fetches pages for the agent's web tools, with no key and no repository.

Every address is judged by the PM's settings before anything is sent, and again at each redirect; what is connected to
is what was judged. Each request is recorded before its answer leaves (spec/SPEC_WEB.md). The watcher holds the
listening sockets and starts the door when somebody waits at one."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
from functools import partial

import structlog

from infra.keep import arguments
from infra.keep.door_server import DoorServer, keep_beating, not_opened
from infra.keep.log import log_to_stderr
from infra.keep.settings.check import parse_settings
from infra.keep.settings.schema import Settings
from infra.keep.sockets import inherited
from infra.keep.web_door import app
from infra.keep.web_door.browsers import Pool, beside
from infra.keep.web_door.fetch import Connections, Fetcher, look_up
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.mirror import Mirror
from infra.keep.web_door.proxy import Proxy
from infra.keep.web_door.robots import Robots
from infra.keep.web_door.search import origin_of
from infra.keep.web_door.trace import Trace
from infra.keep.web_door.worker import Readers
from infra.shared import heart
from infra.shared.door import connect
from infra.shared.exit_codes import Exit
from infra.shared.paths import EYE_SOCKET, PICTURE_VARIABLE
from infra.shared.web import show

log = structlog.get_logger("web_door")

_PR_SET_DUMPABLE = 4
EYE_SECONDS = 5.0


def main(words: list[str] | None = None) -> int:
    """Serve until SIGTERM. The settings come on stdin, as far as they are needed here. The trace goes to stdout."""
    given = arguments.parser("web_door", __doc__ or "").parse_args(words)
    log_to_stderr()
    beating = heart.inherited(os.environ)
    # The worker, which parses what strangers wrote, has our user: it must not reach our trace through /proc or ptrace.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        settings = parse_settings(sys.stdin.read(), given.settings)
        sockets = inherited(os.environ)
        listening = sockets["web"]
    except (KeyError, ValueError, OSError) as error:
        return not_opened(error)
    asyncio.run(_serve(settings, listening, sockets.get("packages"), beating))
    return Exit.OK


async def _serve(
    settings: Settings, listening: socket.socket, packages: socket.socket | None, beating: heart.Heart
) -> None:
    web, trace = settings.web, Trace(sys.stdout.fileno(), partial(os.kill, os.getpid(), signal.SIGTERM))
    connections, judge = Connections(), Judge(settings.policy, web.allowed_domains, origin_of(web.search_url))
    eye = beside if settings.sandbox == "process" else partial(connect, EYE_SOCKET, EYE_SECONDS)
    on_frame = partial(show, int(os.environ[PICTURE_VARIABLE]))
    pool = Pool(eye, lambda: Proxy(judge, look_up), web.pool_size, on_frame) if web.browser == "on" else None
    door = app.WebDoor(web, judge, Fetcher(judge, connections, look_up, Robots()), Readers(), trace, pool)
    server = DoorServer(app.REQUESTS, door.answer, app.failure_of, app.LIMITS)
    if packages:
        await Mirror(web.package_hosts, judge, connections, look_up, trace.record).serve(packages)
    log.info("door.opened")
    await server.serve(listening, partial(keep_beating, beating))


if __name__ == "__main__":
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    sys.exit(main())
