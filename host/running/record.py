"""With what `minifram up` last started an agent: one file beside its repository, out of reach of its container.

The file is a convenience for all that it says but `sealed`: an agent without a record counts as one that was sealed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from host.paths import AgentPaths
from host.running.watcher import holder
from infra.shared.files import write_whole
from infra.shared.providers import KEYS
from infra.shared.safe_files import Below, whole_file

PODMAN, PROCESS = "podman", "process"
SCHEMA = "minifram.up/1"


def write(
    home: AgentPaths, sandbox: str, sealed: bool, keys: Sequence[str] = (), settings: dict[str, Any] | None = None
) -> None:
    """`settings`: each with its value, as in `settings_text.flat`; none for an agent that was not started here yet."""
    record = {
        "schema": SCHEMA,
        "sandbox": sandbox,
        "sealed": sealed,
        "run": home.run,
        "keys": keys,
        "settings": settings or {},
    }
    write_whole(home.started_file, json.dumps(record, indent=1).encode(), mode=0o600)


def read(home: AgentPaths) -> dict[str, Any]:
    """The last record; empty when there is none that can be read."""
    try:
        found = json.loads(whole_file(home.started_file))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("settings"), dict) else {}


def sandbox_in_use(home: AgentPaths) -> str:
    """The sandbox of the last start; empty when there was none."""
    return str(read(home).get("sandbox", ""))


def is_running(home: AgentPaths) -> bool:
    return holder(home.places.watcher_lock, sandbox_in_use(home) == PODMAN) is not None


def was_sealed(home: AgentPaths) -> bool:
    """Whether the agent ever ran in the container, or came from an archive that the PM did not accept as unsealed. An
    agent that has lived without a record of how counts as sealed."""
    try:
        found = json.loads(whole_file(home.started_file))
    except FileNotFoundError:
        return any(map(_holds_something, (home.places.bot, home.state)))
    except ValueError:
        return True
    if not isinstance(found, dict):
        return True
    # Without the key, the record is of a version that knew the last start alone.
    return found.get("sealed", found.get("sandbox") != PROCESS) is not False


def keys_in_use(home: AgentPaths) -> tuple[str, ...]:
    """The names of the keys that the running agent was given."""
    record = read(home)
    if record.get("sandbox") != PODMAN:
        return tuple(key for key in KEYS if os.path.lexists(home.key_file(key)))
    names = record.get("keys", KEYS[:1] if record.get("key") else [])  # versions before knew one key
    return tuple(key for key in KEYS if key in names)


def _holds_something(directory: str) -> bool:
    try:
        return bool(Below(directory).names("", 1))
    except FileNotFoundError:
        return False
    except OSError:  # it belongs to a user of the container
        return True
