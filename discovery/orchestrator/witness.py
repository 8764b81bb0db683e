"""What the host sees of a run: which files of the world were read, what changed in the home, which tools were read.

The agent's output can say anything; the kernel of the host tells of every read through the container's read-only
mount, as that is the same file (inotify(7)). Only what goes through read(2) and its kin counts: a program that maps a
file into memory (`mmap`) is not seen, and neither is who asks a file's size. Reads by programs of the host count as
well, so leave the world alone while somebody explores it. Where there is no such kernel between (macOS, an engine in a
virtual machine or on another machine), the witness says so and sees nothing."""

from __future__ import annotations

import errno
import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import inotify
from home_watch import HomeWatch
from inotify import Inotify

VERSION = 1
WORLD = "/world"
PAUSE_SECONDS = 0.02
"""Between two looks at the world's reads: a program that reads much does not wake us for each piece. The kernel keeps
16,384 events meanwhile."""
_WHAT_TO_DO = {
    errno.ENOSPC: "raise fs.inotify.max_user_watches (sysctl)",
    errno.EMFILE: "raise fs.inotify.max_user_instances (sysctl)",
    errno.EACCES: "this user must be able to list it: chmod o+rx",
}


class _WorldWatch:
    """Every directory of the world, which does not change. Raises OSError at the start."""

    def __init__(self, world: Path) -> None:
        self._inotify = Inotify()
        self._directories: dict[int, str] = {}
        self.read: set[str] = set()
        self.listed: set[str] = set()
        self.overflow = False
        try:
            found = list(os.walk(world, onerror=_raise))  # listed whole before the first watch: we are not the agent
            for directory, _, _ in found:
                below = os.path.relpath(directory, world)
                number = self._inotify.watch(directory, inotify.ACCESS)
                self._directories[number] = WORLD if below == "." else f"{WORLD}/{below}"
        except BaseException:
            self._inotify.close()
            raise

    @property
    def descriptor(self) -> int:
        return self._inotify.descriptor

    def drain(self) -> None:
        for event in self._inotify.events():
            self.overflow |= bool(event.mask & inotify.OVERFLOW)
            directory = self._directories.get(event.watch)
            if directory and event.mask & inotify.ACCESS:
                path = f"{directory}/{event.name}" if event.name else directory
                (self.listed if event.mask & inotify.IS_DIRECTORY else self.read).add(path)

    def take(self) -> tuple[set[str], set[str], bool]:
        taken = self.read, self.listed, self.overflow
        self.read, self.listed, self.overflow = set(), set(), False
        return taken

    def close(self) -> None:
        self._inotify.close()


class Witness:
    """A thread takes in what the kernel tells while a command runs; `step` gives the line of witness.jsonl for it.

    witness = Witness.open(world, home)
    witness.check(lambda: engine.run("ls /world"))
    write(witness.first())
    ... after each command: write(witness.step(n)) ...; at the end: write(witness.step(None))
    witness.close()
    """

    def __init__(self, world: _WorldWatch | None, home: HomeWatch | None, why: dict[str, str]) -> None:
        self._world, self._home, self._why = world, home, why
        self._sees_world = world is not None
        self._lock = threading.Lock()
        self._told, self._tell = os.pipe()
        self._thread = threading.Thread(target=self._take_in, name="witness", daemon=True)
        self._thread.start()

    @classmethod
    def open(cls, world: Path, home: Path | None) -> Witness:
        """Watch the world's directory on the host, and the directory that the container has as /home/agent. Never
        raises: what cannot be watched is told by `first`."""
        why: dict[str, str] = {}
        if not sys.platform.startswith("linux"):
            why = dict.fromkeys(("world", "home"), f"only Linux tells who reads a file, and this is {sys.platform}")
            return cls(None, None, why)
        seen_world = seen_home = None
        try:
            seen_world = _WorldWatch(world)
        except OSError as error:
            why["world"] = _told(error, world)
        if home is None:
            why["home"] = "the home is not on this machine, or this user cannot look into it"
        else:
            try:
                seen_home = HomeWatch(os.fspath(home))
            except OSError as error:
                why["home"] = _told(error, home)
        return cls(seen_world, seen_home, why)

    def check(self, list_world: Callable[[], object]) -> None:
        """Call `list_world`, which lists /world in the container. When the host sees nothing of it, the two have not
        the same kernel, and the witness sees no world. What happened until now is left out of the first step."""
        list_world()
        seen = self.step(None)
        if self._sees_world and WORLD not in seen["listed"]:
            self._sees_world = False
            self._why["world"] = "what the container reads is not seen here: it runs on another kernel"

    def first(self) -> dict[str, Any]:
        """The first line of witness.jsonl: what can be seen, and why not."""
        seen = {"world": self._sees_world, "home": self._home is not None}
        return {"version": VERSION, **seen, "why": dict(self._why)}

    def step(self, n: int | None) -> dict[str, Any]:
        """The line for what happened since the last one; `n` is None for what came after the last command.

        `tools` has None for a tool that was read while it changed, or that the host cannot read. `late` are directories
        that came with files in them, so that reads in them may have been missed; `unwatched` tells what is not watched
        and why."""
        line: dict[str, Any] = {"step": n, "read": [], "listed": [], "tools": {}, "changed": [], "overflow": False}
        with self._lock:
            if self._world and self._sees_world:
                self._world.drain()
                read, listed, line["overflow"] = self._world.take()
                line |= {"read": sorted(read), "listed": sorted(listed)}
            if self._home:
                line["tools"], happened = self._home.settle()
                line["changed"] = sorted(happened.changed)
                line["overflow"] |= happened.overflow
                if happened.late:
                    line["late"] = sorted(happened.late)
                if happened.unwatched:
                    line["unwatched"] = dict(sorted(happened.unwatched.items()))
        return line

    def close(self) -> None:
        """Nothing is watched any more; called twice, it does no harm."""
        if self._thread.is_alive():
            os.write(self._tell, b".")
            self._thread.join()
            os.close(self._told)
            os.close(self._tell)
            for watch in (self._world, self._home):
                if watch:
                    watch.close()
            self._world = self._home = None

    def _take_in(self) -> None:
        """The thread. A new directory of tools is watched at once; the world can wait for a moment."""
        poll, pause = select.poll(), None
        poll.register(self._told, select.POLLIN)
        if self._home:
            poll.register(self._home.descriptor, select.POLLIN)
        while True:
            if self._world and pause is None:
                poll.register(self._world.descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll(pause)}
            pause = None
            if self._told in ready:
                return
            with self._lock:
                if self._home:
                    self._home.drain()
                if self._world and self._world.descriptor in ready:
                    self._world.drain()
                    poll.unregister(self._world.descriptor)
                    pause = PAUSE_SECONDS * 1000


def _raise(error: OSError) -> None:
    raise error


def _told(error: OSError, directory: Path) -> str:
    what = f"{error.filename or directory}: {error.strerror}"
    return f"{what}; {_WHAT_TO_DO[error.errno]}" if error.errno in _WHAT_TO_DO else what
