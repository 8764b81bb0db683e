"""What the web door did, for the PM to see: from its trace, and from the watcher's log for the process itself. What
stands in an address was written by the agent, or by a page."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from host.paths import AgentPaths
from infra.shared.safe_files import Below
from infra.shared.web import TraceLine

TRACE, LOG = "web.jsonl", "watcher.log"
TRACE_BYTES, LOG_BYTES = 8 << 20, 1 << 20
"""Of the end of each file, so much is looked at."""
HOSTS = 20
NOT_YET = "waits for its first request"


class WebUse(NamedTuple):
    state: str
    """Of the process, in words."""
    served: int
    failed: int
    denied: int
    packages: int
    """Connections for pip, uv and npm."""
    hosts: dict[str, int]
    """Requests that were served, by host, most first."""
    denied_for: dict[str, int]
    """By rule or bound, most first."""
    last: str
    """When the last one was asked; empty for never."""


def read_web(home: AgentPaths, is_running: bool) -> WebUse:
    """Never raises: what cannot be read is not there."""
    counted, hosts, reasons, last = Counter[str](), Counter[str](), Counter[str](), ""
    for line in _lines(home):
        counted[line.status] += 1
        last = line.at
        if line.status in ("ok", "package"):
            hosts[_host(line.origin)] += 1
        elif line.status == "denied":
            reasons.update(line.policy_flags[:1] or ("policy",))
    state = _state(home) if is_running else "down with its agent"
    return WebUse(
        state,
        counted["ok"],
        counted["error"],
        counted["denied"],
        counted["package"],
        dict(hosts.most_common(HOSTS)),
        dict(reasons.most_common(HOSTS)),
        last,
    )


def _host(origin: str) -> str:
    with contextlib.suppress(ValueError):  # whoever took the door over may have written anything
        return urlsplit(origin).hostname or origin
    return origin


def _lines(home: AgentPaths) -> Iterator[TraceLine]:
    below = Below(home.state)
    for name in (f"{TRACE}.1", TRACE):
        for line in below.tail(name, TRACE_BYTES).splitlines():
            try:
                yield msgspec.json.decode(line, type=TraceLine)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue  # the first one of the end that is looked at, or one that a power cut tore


def _state(home: AgentPaths) -> str:
    """As the watcher told it last, since it was started itself."""
    below, state = Below(home.state), NOT_YET
    for name in (f"{LOG}.1", LOG):
        for line in below.tail(name, LOG_BYTES).splitlines():
            event = _event(line)
            if event.get("event") == "watcher.started":
                state = NOT_YET
            elif event.get("door") == "web_door":
                match event.get("event"):
                    case "door.started":
                        state = "running"
                    case "door.died":
                        state = f"died ({event.get('how')}), and waits for the next request"
    return state


def _event(line: bytes) -> dict[str, Any]:
    if b"web_door" not in line and b"watcher.started" not in line:
        return {}
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}
