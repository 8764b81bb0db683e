"""Agents to measure: a real watcher on a real bare repository, with a runner of a few lines that stamps its first
statement, or the real body that `minifram init` gives an agent. All of it lies in one directory and ends with it.

Branches are not rehearsed here: runners of a few lines live no whole life, and what a rehearsal costs is a figure."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from bench import bodies
from bench.stamps import PATIENCE_SECONDS, Stamps
from host.agent.init import make_repository
from host.project import first_files
from infra.keep.services import processes
from infra.shared import arguments, watcher_file
from infra.shared.control import RETRY_REF
from infra.shared.paths import ROOT, Paths
from infra.shared.people import Person
from infra.shared.programs import keep_command, keep_environment
from infra.shared.repository.git import Git, GitError
from infra.shared.sockets import connect
from infra.shared.watcher_file import WatcherFile

PM = Person("PM", "pm@example.invalid")
T = TypeVar("T")


def within(seconds: float, look: Callable[[], T | None], what: str) -> T:
    """The first thing that `look` finds. Raises TimeoutError."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise TimeoutError(f"not seen within {seconds:g} s: {what}")
        time.sleep(0.01)


def places_in(directory: Path) -> Paths:
    """The trees of an agent in `directory`, which must be short enough for a socket's path."""
    made = Paths(*(str(directory / name) for name in ("bot", "remote.git", "run", "var")))
    for path in (made.bot, made.run, made.var):
        os.makedirs(path, mode=0o700)
    return made


def born(places: Paths) -> str:
    """Give the agent the body and the first commit that `minifram init` would; gives that commit."""
    return make_repository(places.remote, "bench", first_files(ROOT), PM)


def doors_answer(places: Paths) -> bool:
    try:
        for socket in (places.git_socket, places.model_socket):
            connect(socket, 1.0).close()
    except OSError:
        return False
    return True


class WatchedAgent:
    """An agent with a small runner and a real watcher; `program` is what the watcher is run as."""

    def __init__(
        self,
        directory: Path,
        branches: tuple[str, ...] = (),
        program: tuple[str, ...] = (),
        settings: str = "",
        body: str = bodies.SERVES,
    ) -> None:
        directory.mkdir()
        self.places = places_in(directory)
        self.stamps = Stamps(directory / "stamps")
        self._orders_path = directory / "orders"
        os.mkfifo(self._orders_path, 0o600)
        self._orders = os.open(self._orders_path, os.O_RDWR | os.O_CLOEXEC)
        self._settings = directory / "minifram.yaml"
        self._settings.write_text(f"rehearse: false\n{settings}")
        words = arguments.words(str(self._settings), self.places)
        self._command = (
            [sys.executable, "-s", "-P", *program, *words] if program else keep_command("infra.watcher", *words)
        )
        self._errors = directory / "watcher.err"
        self._watcher: subprocess.Popen[bytes] | None = None
        self._pm = directory / "pm"
        self._versions = 0
        self._make_repository(branches, body)

    def _make_repository(self, branches: tuple[str, ...], body: str) -> None:
        git = Git(str(self._pm.parent), PM)
        git("init", "--quiet", "--bare", "--initial-branch=main", self.places.remote)
        git("init", "--quiet", "--initial-branch=main", str(self._pm))
        (self._pm / "infra").mkdir()
        (self._pm / "infra/__init__.py").write_text("")
        (self._pm / ".gitignore").write_text("logs/\n__pycache__/\n")
        (self._pm / "COMMS.md").write_text("# COMMS\n\n## Directives\n\n## Reports\n")
        self._commit(self._pm, body)
        Git(str(self._pm), PM)("push", "--quiet", self.places.remote, "main")
        for branch in branches:
            Git(str(self._pm), PM)("push", "--quiet", self.places.remote, f"main:refs/heads/{branch}")
            git("clone", "--quiet", "--branch", branch, self.places.remote, self.places.checkout(branch))

    def _commit(self, clone: Path, body: str) -> str:
        self._versions += 1
        text = bodies.program(body, self.places, self.stamps.path, self._orders_path, self._versions)
        (clone / "infra/runner.py").write_text(text)
        git = Git(str(clone), PM)
        git("add", "--all")
        git("commit", "--quiet", "--message", f"version {self._versions}")
        return git("rev-parse", "HEAD")

    def next_main(self, body: str) -> str:
        """Another version of main, on top of what was reported there; gives its commit."""
        git = Git(str(self._pm), PM)
        while True:
            git("fetch", "--quiet", self.places.remote, "main")
            git("reset", "--quiet", "--hard", "FETCH_HEAD")
            commit = self._commit(self._pm, body)
            try:
                git("push", "--quiet", self.places.remote, "main")
            except GitError:  # the watcher has reported meanwhile
                continue
            return commit

    def next_version(self, branch: str, body: str) -> str:
        """Another version of a branch, in its clone as an agent leaves it; gives its commit."""
        return self._commit(Path(self.places.checkout(branch)), body)

    @property
    def pid(self) -> int:
        """The watcher's."""
        assert self._watcher
        return self._watcher.pid

    def start(self) -> WatcherFile:
        """Start the watcher and wait until main serves and both doors answer."""
        self.launch()
        return self.serving("main")

    def launch(self) -> None:
        """Start the watcher and wait until both doors answer."""
        with open(self._errors, "ab") as errors:
            self._watcher = subprocess.Popen(
                self._command, env=keep_environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )
        within(PATIENCE_SECONDS, self._answer, "the doors answering")

    def _answer(self) -> bool:
        assert self._watcher
        if self._watcher.poll() is not None:
            raise RuntimeError(f"the watcher ended with {self._watcher.returncode}: {self._errors.read_text()[-2000:]}")
        return doors_answer(self.places)

    def order(self, branch: str) -> None:
        """Have the runner signal `branch` and leave."""
        os.write(self._orders, f"{branch}\n".encode())

    def state(self) -> WatcherFile:
        try:
            return watcher_file.decode(Path(self.places.watcher_state).read_bytes())
        except (FileNotFoundError, ValueError):
            return WatcherFile()

    def serving(self, branch: str, but: str = "") -> WatcherFile:
        """The state once `branch` serves, in a boot other than `but`."""

        def look() -> WatcherFile | None:
            state = self.state()
            return state if (state.phase, state.branch) == ("running", branch) and state.boot_id != but else None

        return within(PATIENCE_SECONDS, look, f"{branch} running; now {self.state()}")

    def serves_at(self, level: str, before: str) -> WatcherFile:
        """The state once this level serves, in another boot than `before`."""

        def look() -> WatcherFile | None:
            state = self.state()
            return state if (state.phase, state.level) == ("running", level) and state.boot_id != before else None

        return within(PATIENCE_SECONDS, look, f"{level} serving; now {self.state()}")

    def quiet(self) -> WatcherFile:
        """The state once somebody serves and all is told."""

        def look() -> WatcherFile | None:
            state = self.state()
            return state if state.phase == "running" and not state.untold else None

        return within(PATIENCE_SECONDS, look, f"nothing left to do; now {self.state()}")

    def pull(self) -> None:
        """Bring main's clone to main, as a runner does each time that main moves."""
        clone = Git(self.places.main_checkout, PM)
        clone("fetch", "--quiet", self.places.remote, "+refs/heads/main:refs/remotes/origin/main")
        clone("reset", "--quiet", "--hard", "origin/main")

    def retry(self) -> None:
        """What the PM asks for with `minifram retry`: no earlier failure counts any more."""
        asked = Path(self.places.remote, RETRY_REF)
        asked.with_name(".retry").write_text(f"{Git(self.places.remote)('rev-parse', 'refs/heads/main')}\n")
        asked.with_name(".retry").rename(asked)
        Path(self.places.signals, ".beside").touch()  # the watcher looks at once, not at its next poll
        Path(self.places.signals, ".beside").unlink()
        within(PATIENCE_SECONDS, lambda: not asked.exists(), "the watcher taking the PM's retry")

    def stop(self) -> None:
        """End the watcher, and with it the doors and the runner."""
        if self._watcher is None or self._watcher.poll() is not None:
            return
        self._watcher.send_signal(signal.SIGTERM)
        try:
            self._watcher.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            below = psutil.Process(self._watcher.pid).children(recursive=True)
            self._watcher.kill()
            self._watcher.wait()
            for process in below:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def forget(self) -> None:
        """Let the next watcher begin without memory of failures."""
        os.unlink(self.places.watcher_state)
        self.stamps.forget()

    def close(self) -> None:
        self.stop()
        processes.end_strays(self.places, "")
        self.stamps.close()
        os.close(self._orders)
