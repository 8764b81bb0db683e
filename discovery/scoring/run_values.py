"""The values that a run directory is read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

HOME, TOOLS, WORLD = "/home/agent", "/home/agent/tools", "/world"
ARTIFACTS = ("MAP.md", "LOG.md", "TOOLS.md", "PLAN.md")


@dataclass(frozen=True)
class Meta:
    """What meta.json tells; all of it may be missing from the customer's own schema, which has no version."""

    version: int | None = None
    engine: str | None = None
    image: str | None = None
    mode: str | None = None
    model: str | None = None
    seconds: float | None = None
    """The time limit of a command."""
    world_directory: str | None = None
    world_seed: int | None = None
    world_size: str | int | None = None
    world_contents: int | None = None


class Command(NamedTuple):
    """A command event of events.jsonl."""

    number: int
    command: str
    stdout: str
    stderr: str
    exit_code: int | None
    latency_s: float | None
    t: float | None = None
    usd: float | None = None
    """Spent in the run up to here."""


class Seen(NamedTuple):
    """What the host saw during one step; paths as the container has them."""

    read: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    tools: Mapping[str, str] = MappingProxyType({})
    """The hash of each tool file that was opened."""
    changed: frozenset[str] = frozenset()
    overflow: bool = False


@dataclass(frozen=True)
class Witness:
    """`steps` has the number of a step, or None for what came after the last."""

    world: bool
    home: bool
    why: Mapping[str, str]
    steps: Mapping[int | None, Seen]

    def at(self, number: int | None) -> Seen:
        return self.steps.get(number, _NOTHING)


_NOTHING = Seen()


@dataclass(frozen=True)
class KnownFile:
    path: str
    sha256: str
    bytes: int
    lines: int


@dataclass(frozen=True)
class Item:
    """A thing to be found: a file with a nonce in its name and one in its contents; "" where there is none."""

    id: str
    path: str
    name_nonce: str
    content_nonce: str


@dataclass(frozen=True)
class Question:
    id: str
    kind: str
    text: str
    answer: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """What can be known of the world."""

    files: Mapping[str, KnownFile]
    items: tuple[Item, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Answers:
    asked: tuple[str, ...]
    answers: Mapping[str, str]


@dataclass(frozen=True)
class HomeFile:
    """A regular file of the agent's home at the end; `content` is kept of artifacts and tools alone."""

    size: int
    mode: int
    content: bytes | None = None


@dataclass(frozen=True)
class Home:
    """Paths as the container has them."""

    files: Mapping[str, HomeFile]
    others: frozenset[str]
    """Directories, links and all else."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """A run but for its events. A part that is None is told of in `missing`, under the name of its file."""

    name: str
    meta: Meta
    witness: Witness | None
    known: Known | None
    answers: Answers | None
    home: Home | None
    missing: Mapping[str, str]
    warnings: tuple[str, ...]
