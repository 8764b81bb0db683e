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
from host.paths import AgentPaths
from infra.shared.safe_files import opened_file

LOG = "resolver.log"
LINES = 2_000_000
"""Of each file; the watcher moves a log away long before (`limits.log_bytes`)."""
LINE_BYTES = 2000


class Egress(NamedTuple):
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
    return Egress(log.total(), log.top(most), counted, why, read_web(home, podman is not None))


def _lines(home: AgentPaths) -> Iterator[str]:
    """The older log first. The resolver speaks to the cell: its lines are input."""
    for name in (f"{LOG}.1", LOG):
        with contextlib.suppress(FileNotFoundError), opened_file(f"{home.state}/{name}") as file:
            lines = itertools.islice(iter(lambda: file.readline(LINE_BYTES), b""), LINES)
            yield from (line.decode(errors="replace") for line in lines)
