"""What is known of the agents of this user, kept until the files that it was read from have changed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from itertools import islice
from typing import Any, Literal, TypeVar, get_args

from host.home import Context, known_agents, problem_with_agent_name
from host.running import holder
from host.serve.calls import Problem
from host.serve.money import Money
from infra.cell.actions import VALIDATION
from infra.cell.clones import with_clones
from infra.shared.paths import LIFE_FILE, TRANSCRIPTS
from infra.shared.safe_files import Below

T = TypeVar("T")
MOST_KEPT = 64
"""Facts of one agent."""
LOOK_SECONDS = 0.1
MOST_DIRECTORIES, MOST_NAMES = 2000, 10_000
"""Directories of refs that are looked at: git leaves a directory's time changed when it moves a ref in it."""

Part = Literal["repository", "watcher", "money", "questions", "runs", "mind", "web", "settings"]
"""Of what is known: each has files of its own."""
PARTS: tuple[Part, ...] = get_args(Part)


class Agent:
    """One agent; its methods may be called from any thread."""

    def __init__(self, context: Context) -> None:
        self.context, self.home = context, context.home
        self._lock = threading.RLock()
        self._looked = dict[str, tuple[float, Hashable]]()
        self.money = Money(self.home.places.ledger)
        self._kept = OrderedDict[Hashable, tuple[Hashable, Any]]()

    @property
    def name(self) -> str:
        return self.home.agent

    def known(self, name: Hashable, parts: tuple[Part, ...], read: Callable[[], T]) -> T:
        """What `read` gave when the files of `parts` were as they are now. One thread reads at a time: what all ask for
        is read once."""
        with self._lock:
            stamp = self.stamp(parts)
            kept = self._kept.get(name)
            if kept is None or kept[0] != stamp:
                kept = (stamp, read())
                self._kept[name] = kept
            self._kept.move_to_end(name)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
            found: T = kept[1]
            return found

    def kept(self, name: Hashable, parts: tuple[Part, ...]) -> Any:
        """The same, where it need not be read; None where it must be."""
        kept = self._kept.get(name)
        return kept[1] if kept is not None and kept[0] == self.stamp(parts) else None

    def look_again(self) -> None:
        """Something was done: what was looked at a moment ago does not count."""
        self._looked.clear()

    def stamp(self, parts: tuple[Part, ...] = PARTS) -> tuple[Hashable, ...]:
        """Another value when one of these parts may have changed; looked for at most ten times a second."""
        now = time.monotonic()
        found = []
        for part in parts:
            at, stamp = self._looked.get(part, (0.0, None))
            if now - at > LOOK_SECONDS:
                stamp = tuple(self._stamps(part))
                self._looked[part] = (now, stamp)
            found.append(stamp)
        return tuple(found)

    def _stamps(self, part: Part) -> Iterator[Hashable]:
        places, remote = self.home.places, self.home.remote
        match part:
            case "repository":
                yield _stat(f"{remote}/packed-refs")
                yield from map(_stat, _directories(f"{remote}/refs"))
            case "watcher":
                yield holder(places.watcher_lock)
                yield _stat(places.watcher_state)
            case "money":
                yield _stat(places.ledger)
            case "questions":
                yield _stat(places.questions)
            case "runs":
                bot = Below(places.bot)
                for branch in with_clones(bot):
                    yield _stamp(bot.status(f"{branch}/minifram/{LIFE_FILE}"))
                    with contextlib.suppress(OSError):  # names begin with the time
                        last = max(bot.names(f"{branch}/minifram/{TRANSCRIPTS}", MOST_NAMES), default="")
                        yield last, _stamp(bot.status(f"{branch}/minifram/{TRANSCRIPTS}/{last}"))
            case "mind":
                with contextlib.suppress(OSError):
                    yield _stat(f"{places.events}/{max(os.listdir(places.events), default='')}")
            case "web":
                yield _stat(places.web_trace)
            case "settings":
                yield _stat(self.home.settings)


class Agents:
    """All agents of this user; the address of a page names one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._agents = dict[str, Agent]()

    def names(self) -> list[str]:
        return known_agents(self._context.environ)

    def get(self, name: str) -> Agent:
        """Raises Problem for a name that is none of theirs."""
        if problem_with_agent_name(name) or name not in self.names():
            raise Problem(VALIDATION, f"there is no agent {name[:60]!r}", 404, hint="'/' lists the agents")
        return self._agents.setdefault(name, Agent(self._context._replace(agent=name)))


def _stat(path: str) -> Hashable:
    try:
        return path, _stamp(os.lstat(path))
    except OSError:
        return None


def _stamp(found: os.stat_result | None) -> Hashable:
    return found and (found.st_ino, found.st_mtime_ns, found.st_size)


def _directories(root: str) -> Iterator[str]:
    return (directory for directory, _, _ in islice(os.walk(root), MOST_DIRECTORIES))
