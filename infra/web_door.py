"""The web door: fetches pages for the agent's web tools, over HTTP on a unix socket, with no key and no repository.

Every address is judged by the PM's settings before anything is sent, and again at each redirect; what is connected to
is what was judged. Each request is recorded before its answer leaves (spec/SPEC_WEB.md). The watcher holds the
listening sockets and starts the door when somebody waits at one."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from typing import Any

import structlog

from infra.keep import arguments
from infra.keep.model_door import log_lines
from infra.keep.model_door.surroundings import remove_foreign_settings
from infra.keep.services.activation import inherited
from infra.keep.serving import serve
from infra.keep.settings import policy_of
from infra.keep.settings_file import SettingsError, parse_settings
from infra.keep.web_door.connection import Connections
from infra.keep.web_door.fetching import Fetcher, FetchLimits
from infra.keep.web_door.judge import Judge
from infra.keep.web_door.outgoing import Outgoing
from infra.keep.web_door.packages import Packages
from infra.keep.web_door.reading import Reading
from infra.keep.web_door.refusal import WebRefusal
from infra.keep.web_door.rendering import Rendering
from infra.keep.web_door.resolve import Resolver
from infra.keep.web_door.robots import Robots
from infra.keep.web_door.serving import WebDoor
from infra.keep.web_door.target import target_of
from infra.keep.web_door.trace import Trace
from infra.keep.web_door.turns import MOST_AT_ONCE
from infra.keep.web_door.worker import Readers
from infra.shared.exit_codes import Exit
from infra.shared.policy import ALLOW

log = structlog.get_logger("web_door")

SOCKET, PACKAGES = "web", "packages"
"""Among those that the watcher holds."""
BODIES_BYTES = 256 << 20
"""Of all pages that are fetched at once."""
_PR_SET_DUMPABLE = 4
_SPARE_SECONDS = 15.0
"""An answer is awaited so much longer than a page may take: for its turn, and until it is read."""


def main(words: list[str] | None = None) -> int:
    """Serve until SIGTERM. The settings come on stdin, as far as they are needed here. The trace goes to stdout."""
    given = arguments.parser("web_door", __doc__ or "").parse_args(words)
    log_lines.configure()
    # The worker, which parses what strangers wrote, has our user: it must not reach our trace through /proc or ptrace.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGTERM, _leave)
    remove_foreign_settings(os.environ)
    try:
        settings = parse_settings(sys.stdin.read(), given.settings)
        sockets = inherited(os.environ)
        listening = sockets[SOCKET]
    except (SettingsError, KeyError, ValueError, OSError) as error:
        log.error("door.not_opened", reason=str(error))
        return Exit.CONFIG
    log.info("door.opened")
    web, trace, names = settings.web, Trace(sys.stdout.fileno()), Resolver()
    judge = Judge(policy_of(settings), web.allowed_domains, _origin(web.search_url))
    limits = FetchLimits()
    fetcher = Fetcher(judge, limits, Connections(), names.addresses, Robots())
    readers = Readers()
    reading = Reading(judge, fetcher, Rendering(readers, web.keep_raw_html), Outgoing(), web.search_url)
    at_once = max(1, min(MOST_AT_ONCE, BODIES_BYTES // limits.page_bytes))
    door = WebDoor(reading.fetch, reading.search, trace, limits.seconds, at_once)
    tasks: set[asyncio.Task[Any]] = set()

    def begin() -> None:
        tasks.add(asyncio.ensure_future(readers.start()))
        if PACKAGES in sockets:
            inner = settings.policy.private_networks == ALLOW
            packages = Packages(
                web.package_hosts, names.found, trace.record, denied=judge.denied, is_private_allowed=inner
            )
            tasks.add(asyncio.ensure_future(packages.serve(sockets[PACKAGES])))

    serve(door.app, listening, begin, waiting_seconds=2 * limits.seconds + _SPARE_SECONDS)
    return Exit.OK


def _origin(url: str | None) -> str:
    try:
        return target_of((url or "").replace("{query}", "")).origin
    except WebRefusal:
        return ""


def _leave(*_: object) -> None:
    """The default would end the process with the signal's number; leaving when asked is no failure."""
    raise SystemExit(Exit.OK)


if __name__ == "__main__":
    from infra.shared.redacted_file import guard_stderr

    guard_stderr()
    sys.exit(main())
