"""What the sender remembers over its own death: what it has seen, what is due, what was delivered. One small file
beside the agent's repository, out of its container's reach; replaced whole, and on the disk before anything is sent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import msgspec

from host.notify.events import Seen
from host.notify.letters import Lane
from host.paths import AgentPaths
from infra.shared.files import write_whole
from infra.shared.safe_files import whole_file

SCHEMA = "minifram.notify/1"
UNREADABLE = ".unreadable"


class Channel(msgspec.Struct, frozen=True):
    """One way to the PM: a command or a webhook."""

    lanes: Mapping[str, Lane] = {}
    succeeded_at: str = ""
    failed_at: str = ""
    error: str = ""
    """Of the last attempt that failed; empty since one succeeded."""

    @property
    def waits(self) -> int:
        """How many events are not delivered."""
        pending = sum(lane.pending.count for lane in self.lanes.values() if lane.pending)
        return pending + sum(lane.letter is not None for lane in self.lanes.values())


class Memory(msgspec.Struct, frozen=True):
    seen: Seen = Seen()
    channels: Mapping[str, Channel] = {}
    schema: str = SCHEMA


class Store:
    """The file. Not for two processes at once: who writes holds the sender's lock."""

    def __init__(self, home: AgentPaths) -> None:
        self.path = f"{home.data}/notify.json"

    def read(self) -> Memory | None:
        """None when there is none. Raises ValueError for what is no such file, and OSError."""
        try:
            found = msgspec.json.decode(whole_file(self.path), type=Memory)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{self.path} holds no memory of a sender: {error}") from None
        if found.schema != SCHEMA:
            raise ValueError(f"{self.path} has schema {found.schema!r}; this version reads {SCHEMA!r}")
        return found

    def take(self) -> tuple[Memory, str]:
        """The memory, and a complaint; a file that is none is set aside. Raises OSError."""
        try:
            return self.read() or Memory(), ""
        except ValueError as error:
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.path, f"{self.path}{UNREADABLE}")
            return Memory(), f"{error}; it is set aside, and what holds now is sent again"

    def write(self, memory: Memory) -> None:
        """On the disk when this returns. Raises OSError."""
        write_whole(self.path, msgspec.json.encode(_printable(msgspec.to_builtins(memory))), mode=0o600)


def _printable(value: Any) -> Any:
    """Without halves of surrogate pairs, which JSON of UTF-8 cannot hold."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_printable(key): _printable(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_printable(inner) for inner in value]
    return value
