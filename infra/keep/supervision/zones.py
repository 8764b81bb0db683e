"""What differs between the sandboxes, as one value: who the cell runs as, how it reaches origin, what the keep runs for
it, and what verifies the seal. The watcher is the same in all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from infra.keep.services.doors import Service, doors
from infra.keep.timing import Timing
from infra.shared.identity import OURS, Identity
from infra.shared.paths import Paths


class Zones(NamedTuple):
    """Keep and cell of one agent (`spec/ARCHITECTURE.md`)."""

    settings_path: str
    places: Paths
    remote_url: str
    """What the agent's clones call origin."""
    services: list[Service]
    cell: Identity = OURS
    by_daemon: bool = False
    """The clones reach the git door by git:// and need to name no program."""
    proof: Callable[[], str] = lambda: ""
    """Why the seal does not hold, asked before each launch; empty when it does."""
    examiner: Identity = OURS
    """Who examines: the candidate's code runs as this user there, and the cell can touch nothing of it."""
    code: str = ""
    """Where the copies lie that runners are started from; empty: below `run`."""
    scratch: tuple[str, ...] = ()
    """Where the examiner may write, and nothing else of that user's lies: the first is for checkouts."""
    also: Mapping[str, str] = MappingProxyType({})
    """In the environment of all that runs as the cell."""
    timing: Timing = Timing()


def plain_directories(settings_path: str, places: Paths) -> Zones:
    """The process sandbox: one user, no isolation."""
    return Zones(settings_path, places, places.remote, doors(settings_path, places))
