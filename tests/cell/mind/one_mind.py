"""A mind for one test: a bare repository with the branch `mind`, and its clone, as a run has it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from typing import Any

from infra.cell.interruption import Interruption
from infra.cell.mind.mind import MindContext
from infra.keep.mind.events import EventLog
from infra.shared.conversation import Completion, Request
from infra.shared.paths import Paths
from infra.shared.people import AGENT, Person
from infra.shared.repository.git import Git


class OneMind:
    """`log` gets the words and facts of each note."""

    def __init__(self, root: str, now: float) -> None:
        self._lies(root, now)
        shutil.copytree(_born(type(self)), root, dirs_exist_ok=True, copy_function=shutil.copy)
        self.git("config", "remote.origin.url", self.places.remote)  # not the one that it was copied from

    def _lies(self, root: str, now: float) -> None:
        self.places = Paths(bot=f"{root}/bot", remote=f"{root}/remote.git", run=f"{root}/run", var=f"{root}/var")
        self.root = self.places.mind
        self.now = now
        self.page = ""
        """COMMS.md."""
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.bare = Git(self.places.remote, AGENT)
        self.git: Git = Git(self.root, AGENT)

    def bear(self, root: str) -> None:
        """Make what lies below the root at first; done once for each class, as it takes many processes of git."""
        Git(root)("init", "--quiet", "--template=", "--bare", "--initial-branch=mind", "remote.git")
        Git(root)("init", "--quiet", "--template=", "--initial-branch=mind", "bot/mind")
        self.git("remote", "add", "origin", self.places.remote)
        self.write(".gitignore", "logs/events\nscratch/\n*.prom\n")
        self.saves("birth")

    def saves(self, message: str) -> None:
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--message", message)
        self.git("push", "--quiet", "origin", "HEAD:mind")

    def write(self, path: str, content: str | bytes) -> None:
        os.makedirs(os.path.dirname(f"{self.root}/{path}"), exist_ok=True)
        with open(f"{self.root}/{path}", "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)

    def read(self, path: str) -> str:
        with open(f"{self.root}/{path}", encoding="utf-8") as file:
            return file.read()

    def pm_pushes(self) -> None:
        """All that lies there, as the PM's commit."""
        git = Git(self.root, Person("PM", "pm@example.invalid"))
        git("add", "--all")
        git("commit", "--quiet", "--message", "the PM's")
        git("push", "--quiet", "origin", "HEAD:mind")
        git("fetch", "--quiet", "origin")

    def notes(self, word: str) -> list[dict[str, Any]]:
        return [facts for each, facts in self.log if each == word]

    def context(self, exploration_usd: float | None = None) -> MindContext:
        return MindContext(
            places=self.places,
            git=self.git,
            remote_url=self.places.remote,
            exploration_usd=exploration_usd,
            note=lambda word, **facts: self.log.append((word, facts)),
            ask=_no_model,
            origins=lambda: (),
            is_tainted=lambda: False,
            record=lambda events: EventLog(self.places).append(events, self.now),
            page=lambda: self.page,
            now=lambda: self.now,
            interruption=Interruption(),
        )


def _no_model(request: Request) -> Completion:
    raise AssertionError("no model is called")


_BORN: dict[str, str] = {}


def _born(kind: type[OneMind]) -> str:
    if kind.__qualname__ in _BORN:
        return _BORN[kind.__qualname__]
    directory = _BORN[kind.__qualname__] = tempfile.mkdtemp(prefix="minifram-mind-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    mind = kind.__new__(kind)
    OneMind._lies(mind, directory, 0.0)
    mind.bear(directory)
    return directory
