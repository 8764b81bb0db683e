"""What is known of the agents of this user, kept until the files that it was read from have changed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from itertools import islice
from typing import Any, Literal, TypeVar, get_args

from starlette.concurrency import run_in_threadpool

from host.home import Context, known_agents, problem_with_agent_name
from host.running import holder
from host.serve.bridge import Bridge
from host.serve.calls import Problem
from host.serve.money import Money
from host.status import Status, read_status
from infra.cell.actions import VALIDATION
from infra.cell.clones import with_clones
from infra.shared.paths import LIFE_FILE, TRANSCRIPTS
from infra.shared.safe_files import Below

T = TypeVar("T")
MOST_KEPT = 64
"""Facts of one agent."""
LOOK_SECONDS, STREAM_SECONDS = 0.1, 0.5
QUIET_LOOKS = 30
"""Of a stream; a proxy may close a connection on which nothing comes for a minute."""
MOST_DIRECTORIES, MOST_NAMES = 2000, 10_000
"""Directories of refs that are looked at: git leaves a directory's time changed when it moves a ref in it."""
Part = Literal["repository", "watcher", "money", "questions", "runs", "mind", "web", "settings"]
"""Of what is known: each has files of its own."""
PARTS: tuple[Part, ...] = get_args(Part)


class Agent:
    """One agent; its methods may be called from any thread."""

    def __init__(self, context: Context) -> None:
        self.context, self.home, self.bridge = context, context.home, Bridge(context)
        self.name = self.home.agent
        self._reading, self._looking = threading.RLock(), threading.Lock()
        self._looked = dict[Part, tuple[float, Hashable]]()
        self._money = Money(self.home.places.ledger)
        self._kept = OrderedDict[Hashable, tuple[Hashable, Any]]()

    def known(self, name: Hashable, parts: tuple[Part, ...], read: Callable[[], T]) -> T:
        """What `read` gave when the files of `parts` were as they are now; nobody may change it. One thread reads at a
        time: what all ask for is read once."""
        with self._reading:
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

    def money(self) -> Money:
        """What was paid up to now. For what `known` reads alone: it grows in place."""
        return self._money.read()

    def status(self) -> Status:
        parts: tuple[Part, ...] = ("repository", "watcher", "money", "questions", "runs", "web", "settings")
        return self.known("status", parts, lambda: read_status(self.home, time.time()))

    def look_again(self) -> None:
        """Something was done: what was looked at a moment ago does not count."""
        self._looked.clear()

    def stamp(self, parts: tuple[Part, ...] = PARTS) -> tuple[Hashable, ...]:
        """Another value when one of these parts may have changed; looked for at most ten times a second."""
        now, found = time.monotonic(), []
        with self._looking:
            for part in parts:
                at, stamp = self._looked.get(part, (0.0, None))
                if now - at > LOOK_SECONDS:
                    stamp = None
                    with contextlib.suppress(OSError):  # who reads it is told why
                        stamp = tuple(self._stamps(part))
                    self._looked[part] = (now, stamp)
                found.append(stamp)
        return tuple(found)

    def _stamps(self, part: Part) -> Iterator[Hashable]:
        places, remote = self.home.places, self.home.remote
        match part:
            case "repository":
                yield _stat(f"{remote}/packed-refs")
                directories = islice(os.walk(f"{remote}/refs"), MOST_DIRECTORIES)
                yield from (_stat(directory) for directory, _, _ in directories)
            case "watcher":
                yield holder(places.watcher_lock)
                yield _stat(places.watcher_state)
            case "runs":
                bot = Below(places.bot)
                for branch in with_clones(bot):
                    yield _stamp(bot.status(f"{branch}/minifram/{LIFE_FILE}"))
                    with contextlib.suppress(OSError):  # names begin with the time
                        last = max(bot.names(f"{branch}/minifram/{TRANSCRIPTS}", MOST_NAMES), default="")
                        yield last, _stamp(bot.status(f"{branch}/minifram/{TRANSCRIPTS}/{last}"))
            case "mind":
                yield _stat(f"{places.events}/{max(os.listdir(places.events), default='')}")
            case _:
                files = {"money": places.ledger, "questions": places.questions, "web": places.web_trace}
                yield _stat(files.get(part, self.home.settings))

    async def changes(self) -> AsyncIterator[str]:
        """Server-sent events: the parts that have changed. All listeners look at the same moments: it is one look."""
        before = await run_in_threadpool(self.stamp)
        yield ": listening\n\n"
        looks = 0
        while True:
            await asyncio.sleep(STREAM_SECONDS - time.monotonic() % STREAM_SECONDS)
            now, looks = await run_in_threadpool(self.stamp), looks + 1
            if changed := [part for part, old, new in zip(PARTS, before, now, strict=True) if old != new]:
                yield f"event: changed\ndata: {json.dumps(changed)}\n\n"
            elif looks % QUIET_LOOKS == 0:
                yield ": quiet\n\n"
            before = now


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
        if name not in self._agents:
            self._agents.setdefault(name, Agent(self._context._replace(agent=name)))
        return self._agents[name]

    def close(self) -> None:
        for agent in list(self._agents.values()):
            agent.bridge.close()


def _stat(path: str) -> Hashable:
    with contextlib.suppress(OSError):
        return path, _stamp(os.lstat(path))
    return None


def _stamp(found: os.stat_result | None) -> Hashable:
    return found and (found.st_ino, found.st_mtime_ns, found.st_size)
