"""A mind for one test: a bare repository with the branch `mind`, and its clone, as a run has it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import structlog
from structlog.typing import EventDict

from infra.cell.cell import Cell, agent_git
from infra.cell.doors import Keep
from infra.cell.interruption import Interruption
from infra.cell.page import Page
from infra.cell.state import State
from infra.cell.status import StatusFile
from infra.keep.mind.events import EventLog
from infra.shared.boot import Boot, Limits
from infra.shared.conversation import Completion, Request
from infra.shared.heart import Heart
from infra.shared.log import Log
from infra.shared.paths import PAGE, Paths
from infra.shared.people import AGENT, Person
from infra.shared.repository.git import EMPTY_TREE, Git
from infra.shared.repository.tip import commit_tree, tree_with, write_file
from infra.shared.requests import Recorded, TaintedBy


class OneMind:
    """`log` gets the words and facts of each note."""

    def __init__(self, root: str, now: float) -> None:
        self.lies(places_in(root), now)
        shutil.copytree(_born(type(self)), root, dirs_exist_ok=True, copy_function=shutil.copy)
        self.has_its_remote(self.root)

    def lies(self, places: Paths, now: float) -> None:
        self.places = places
        self.root = self.places.mind
        self.now = now
        self.origins, self.is_tainted, self.is_away = tuple[str, ...](), False, False
        """What the keep says, if it is there."""
        self.ask: Callable[[Request], Completion] = _no_model
        self.heartbeat = Heart()
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.bare = Git(self.places.remote, AGENT)
        self.git: Git = agent_git(self.root, places)

    def has_its_remote(self, clone: str) -> None:
        """Not the one that it was copied from."""
        settings = Path(clone, ".git/config")
        settings.write_text(settings.read_text().replace(f"{_born(type(self))}/remote.git", self.places.remote))

    def bear(self, root: str) -> None:
        """Make what lies below the root at first; done once for each class, as it takes many processes of git."""
        Git(root)("init", "--quiet", "--template=", "--bare", "--initial-branch=mind", "remote.git")
        self.bare("config", "receive.autogc", "false")  # as a remote has it
        Git(root)("init", "--quiet", "--template=", "--initial-branch=mind", "bot/mind")
        self.git("remote", "add", "origin", self.places.remote)
        self.write(".gitignore", "logs/events\nscratch/\n*.prom\n")
        self.pm_pushes()
        self.pm_says("")

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

    def pm_says(self, page: str) -> None:
        """In COMMS.md of main."""
        tree = tree_with(self.bare, EMPTY_TREE, {PAGE: write_file(self.bare, page)})
        self.bare("update-ref", "refs/remotes/origin/main", commit_tree(self.bare, tree, (), "said"))

    def notes(self, word: str) -> list[dict[str, Any]]:
        return [facts for each, facts in self.log if each == word]

    def cell(self) -> Cell:
        """What a runner of this agent has; its model is `ask`, and its keep one of this process."""
        limits = Limits(bash_seconds=20, run_steps=10, run_seconds=600)
        boot = Boot("0" * 32, "main", "0" * 40, "start", self.places.remote, "merge", self.places, limits)
        log, state, keep = _logger(self.log), State(self.places.bot, _logger([])), _PlayedKeep(self)
        page, status = Page(self.bare, state, boot, keep, log), StatusFile("", log)
        return Cell(
            *(boot, self.places.main_checkout, self.bare, page, log, status, state),
            *(Interruption(), self.ask, self.heartbeat, keep),
            wall=lambda: self.now,
        )


def places_in(root: str) -> Paths:
    return Paths(bot=f"{root}/bot", remote=f"{root}/remote.git", run=f"{root}/run", var=f"{root}/var")


class _PlayedKeep(Keep):
    def __init__(self, mind: OneMind) -> None:
        super().__init__("")
        self._mind = mind

    def record(self, events: Sequence[dict[str, Any]]) -> Recorded:
        if self._mind.is_away:
            raise OSError("the door is away")
        return EventLog(self._mind.places).append(events, self._mind.now)

    def taint(self, since: float) -> TaintedBy:
        return TaintedBy(self._mind.origins, self._mind.is_tainted)


def _logger(kept: list[tuple[str, dict[str, Any]]]) -> Log:
    def keep(logger: object, name: str, event: EventDict) -> EventDict:
        kept.append((event.pop("event"), dict(event)))
        raise structlog.DropEvent

    log: Log = structlog.wrap_logger(structlog.ReturnLogger(), processors=[keep])
    return log


def _no_model(request: Request) -> Completion:
    raise AssertionError("no model is called")


_BORN: dict[str, str] = {}


def _born(kind: type[OneMind]) -> str:
    if kind.__qualname__ in _BORN:
        return _BORN[kind.__qualname__]
    directory = _BORN[kind.__qualname__] = tempfile.mkdtemp(prefix="minifram-mind-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    mind = kind.__new__(kind)
    mind.lies(places_in(directory), 0.0)
    mind.bear(directory)
    return directory
