"""What a switch of images leaves on the disk, in the agent's directory on the host, where no container writes: the
journal of one under way, and the note of the last that was finished, by which `upgrade --back` finds its way."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, NamedTuple, TypeVar

from host.container.switching import Journal
from host.container.words import Image
from host.errors import CommandError
from host.paths import AgentPaths
from infra.shared.exit_codes import Exit
from infra.shared.files import sync_directory, write_whole
from infra.shared.safe_files import MOST_WHOLE, whole_file

UNDER_WAY, DONE = "minifram.switch/1", "minifram.switched/1"
_MOST_BYTES = 3 * MOST_WHOLE
"""A memory or two, escaped."""


class Done(NamedTuple):
    """The last switch that was finished."""

    at: str
    old: Image
    new: Image
    memory: str
    """Of the watcher of `old`, as it was then."""


T = TypeVar("T", Journal, Done)


def is_under_way(home: AgentPaths) -> bool:
    """Or was, when it was cut short."""
    return os.path.lexists(home.switch_file)


def read_journal(home: AgentPaths) -> Journal | None:
    """None when nothing is under way. Raises CommandError for what cannot be read."""
    return _read(home.switch_file, UNDER_WAY, Journal)


def write_journal(home: AgentPaths, journal: Journal) -> None:
    _write(home.switch_file, UNDER_WAY, journal)


def remove_journal(home: AgentPaths) -> None:
    """Also one that cannot be read."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(home.switch_file)
    sync_directory(home.data)


def read_done(home: AgentPaths) -> Done | None:
    """None when there was none. Raises CommandError for what cannot be read."""
    return _read(home.switched_file, DONE, Done)


def write_done(home: AgentPaths, done: Done) -> None:
    _write(home.switched_file, DONE, done)


def read_memory(home: AgentPaths) -> str:
    """`watcher.json` byte for byte, empty when there is none. Raises OSError, and ValueError for no such file."""
    try:
        return whole_file(home.places.watcher_state).decode(errors="surrogateescape")
    except FileNotFoundError:
        return ""


def write_memory(home: AgentPaths, memory: str) -> None:
    """The same back; nothing of the agent may run. The ledger and the logs only ever grow, and stay."""
    path = home.places.watcher_state
    if memory:
        write_whole(path, memory.encode(errors="surrogateescape"), mode=0o600)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


_FORMER = {"level": "rung"}
"""What the version before calls a field: written beside it, and read where the field itself is missing."""


def _write(path: str, schema: str, value: Journal | Done) -> None:
    plain = value._asdict() | {"schema": schema, "old": value.old._asdict(), "new": value.new._asdict()}
    plain |= {former: plain[name] for name, former in _FORMER.items() if name in plain}
    write_whole(path, json.dumps(plain, indent=1).encode(), mode=0o600)


def _read(path: str, schema: str, kind: type[T]) -> T | None:
    """Fields that another version wrote, and this one does not know, are left out."""
    try:
        known: dict[str, Any] = json.loads(whole_file(path, _MOST_BYTES))
        if known.get("schema") != schema:
            raise ValueError(f"it is no {schema}")
        known = {name: known[former] for name, former in _FORMER.items() if former in known} | known
        images = {name: Image(**known[name]) for name in ("old", "new")}
        return kind(**{name: known[name] for name in kind._fields if name in known} | images)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CommandError(
            Exit.CONFLICT,
            f"{path} cannot be read ({error}), so its upgrade cannot go on: 'minifram down' gives that up, then "
            "'minifram up' starts the installed version; what the agent holds is not touched by either",
        ) from None
