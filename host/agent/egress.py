"""What a contained agent wanted of the network, for the PM to see: the names it asked for, and what the rules stopped.

The names come from the resolver's log in the keep's state, the rules' counts from the container itself; nobody but the
PM's podman can read those once it is sealed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from host.agent.web import WebUse, read_web
from host.container.counters import Count, CountersError, parse_counters, rejected
from host.container.podman import Podman, PodmanError
from host.container.query_log import Asked, QueryLog
from host.container.words import names
from host.context import Context
from host.paths import AgentPaths
from host.repository.checks import NOTE, OK, WARN, Result
from host.running import record
from infra.shared.safe_files import opened_file
from infra.shared.settings_file import SettingsError, read_settings

LOG = "resolver.log"
LINES = 2_000_000
"""Of each file; the watcher moves a log away long before (`limits.log_bytes`)."""
LINE_BYTES = 2000


class Egress(NamedTuple):
    mode: str
    """`egress.mode` of the last start."""
    total: Asked
    names: dict[str, Asked]
    """By registered name, who carried most first."""
    rejected: dict[str, Count] | None
    """By rule, the busiest first, since the container was started; None when they cannot be read."""
    why_unknown: str
    web: WebUse
    """What went through the web door."""


def read_egress(home: AgentPaths, podman: Podman | None, most: int) -> Egress:
    """`podman` is None when no container runs; `most` names have a line of their own. Raises OSError, ValueError."""
    log = QueryLog()
    log.note_all(_lines(home))
    counted, why = None, "the agent is not running"
    if podman:
        try:
            ask = ("nft", "-j", "list", "counters", "table", "inet", "minifram")
            told = podman("exec", "--user=0:0", names(home.agent).container, *ask)
            counted, why = rejected(parse_counters(told)), ""
        except (PodmanError, CountersError) as error:
            why = str(error)
    return Egress(mode_in_use(home), log.total(), log.top(most), counted, why, read_web(home, podman is not None))


def mode_in_use(home: AgentPaths) -> str:
    """A record of a version before the modes says nothing of them."""
    return str(record.read(home).get("settings", {}).get("egress.mode", "open"))


WORDS = {
    "open": "every public address",
    "allowlist": "the names in egress.allow alone",
    "door": "the keep's doors alone",
}
"""What the agent reaches in each mode."""


def check_egress(context: Context, home: AgentPaths) -> Iterator[Result]:
    """For `minifram doctor`: settings that promise what does not hold, or take what the PM may miss."""
    try:
        settings = read_settings(home.settings)
    except SettingsError:  # reported by its own check
        return
    mode, hosts = settings.egress.mode, settings.web.package_hosts
    used = record.sandbox_in_use(home) or settings.sandbox
    if mode != "open" and used == record.PROCESS:
        yield Result("egress", WARN, f"egress.mode is {mode!r}, which nothing enforces in the process sandbox")
    elif mode == "door" and not hosts:
        yield Result("egress", NOTE, "door: pip, uv and npm reach nothing; web.package_hosts may name their indexes")
    else:
        packages = f"; packages from {', '.join(hosts)}" if mode == "door" else ""
        yield Result("egress", OK, f"{mode}: the agent reaches {WORDS[mode]}{packages}")


def _lines(home: AgentPaths) -> Iterator[str]:
    """The older log first. The resolver speaks to the cell: its lines are input."""
    for name in (f"{LOG}.1", LOG):
        with contextlib.suppress(FileNotFoundError), opened_file(f"{home.state}/{name}") as file:
            lines = itertools.islice(iter(lambda: file.readline(LINE_BYTES), b""), LINES)
            yield from (line.decode(errors="replace") for line in lines)
