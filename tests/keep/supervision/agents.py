"""A small agent for the watcher's tests: a real bare repository whose `infra/runner.py` is a few lines that do
what the file `behaviour` of its commit says, and the real watcher as a child process."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import psutil

from infra.keep import arguments, watcher_file
from infra.keep.git_door.tips import read_tip
from infra.keep.programs import keep_command, keep_environment
from infra.keep.watcher_file import State
from infra.shared.paths import Paths
from infra.shared.people import Person
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file
from infra.shared.signals import Signal, SignalName, write_signal
from tests.keep.supervision import timed_watcher

PM = Person("PM", "pm@example.invalid")
T = TypeVar("T")

RUNNER = """
import json, os, signal, socket, subprocess, sys, time

BOOT = json.loads(os.environ["MINIFRAM_BOOT"])
BOT = BOOT["places"]["bot"]
os.makedirs("logs", exist_ok=True)

def say(word, boot_id=BOOT["id"]):
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (int(now * 1000) % 1000)
    with open("logs/bootstrap.log", "ab+") as log:
        log.seek(max(0, log.seek(0, 2) - 1))
        torn = log.read(1) not in (b"", b"\\n")  # by a power cut
        log.write(b"\\n" * torn + f"{stamp} {word} {BOOT['branch']} {BOOT['commit']} {boot_id}\\n".encode())

def ask(name, target):
    with open(f"{BOT}/.signal/.tmp", "w") as file:
        file.write(target + "\\n")
    os.rename(f"{BOT}/.signal/.tmp", f"{BOT}/.signal/{name}")

def serve():
    say("BOOTSTRAPPING")
    say("SUCCESS")
    while True:
        time.sleep(60)
        beat()

HEART = int(os.environ.pop("MINIFRAM_HEART"))

def beat(within=600.0):
    os.write(HEART, json.dumps({"doing": "serving", "within": within}).encode())

beat()
def behaviour():
    for place in (".", BOOT["places"]["remote"]):  # the clone may not have the commit yet
        words = ["git", "-C", place, "show", BOOT["commit"] + ":behaviour"]
        shown = subprocess.run(words, capture_output=True, text=True)
        if not shown.returncode:
            return shown.stdout
    raise OSError(shown.stderr)

exec(behaviour())
"""


def within(seconds: float, look: Callable[[], T | None], what: str) -> T:
    """The first thing `look` finds; fails the test when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        looked = time.monotonic()
        found = look()
        if found:
            return found
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"not seen within {seconds:g} s: {what}")
        time.sleep(min(max(0.01, 4 * (now - looked)), 0.3))  # the processors are for whom it waits for


def living(variable: str, words: str) -> list[psutil.Process]:
    """Processes that are no zombies, and whose environment has these words in that variable."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if words in process.environ().get(variable, "") and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@functools.cache
def _born(behaviour: str) -> Path:
    """The repository and the PM's clone of an agent with this behaviour, to be copied: making them takes twelve
    processes of git."""
    directory = Path(tempfile.mkdtemp(prefix="mf-born-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    remote, clone = f"{directory}/remote.git", directory / "pm"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", remote], check=True)
    subprocess.run(["git", "init", "-q", "-b", "main", clone], check=True)
    git = Git(str(clone), PM)
    git("remote", "add", "origin", remote)
    (clone / "infra").mkdir()
    (clone / "infra/__init__.py").write_text("")
    (clone / "infra/runner.py").write_text(RUNNER)
    (clone / ".gitignore").write_text("logs/\n__pycache__/\n")
    (clone / "COMMS.md").write_text("# COMMS\n\n## Directives\n\n## Reports\n")
    (clone / "behaviour").write_text(behaviour)
    git("add", "-A")
    git("commit", "-q", "-m", behaviour.splitlines()[0][:50])
    git("push", "-q", "origin", "main")
    return directory


class Agent:
    """One agent under test."""

    def __init__(self, directory: Path, behaviour: str = "serve()", settings: str = "") -> None:
        self.directory = directory
        # A unix socket's path must be short, and a test's own directory may not be.
        self.run = tempfile.mkdtemp(prefix="mf-")
        self.places = Paths(
            bot=str(directory / "bot"), remote=str(directory / "remote.git"), run=self.run, var=str(directory / "var")
        )
        self.settings = directory / "minifram.yaml"
        # These runners live no whole life, and so would live through no rehearsal.
        # Nor do they ask the doors anything.
        self.settings.write_text(
            settings or "timing: {rehearse: false, quick: true, grace_seconds: 1, boot_seconds: 12, hops: 1000}\n"
        )
        self.clone = directory / "pm"
        shutil.copytree(_born(behaviour), directory, symlinks=True, dirs_exist_ok=True)
        self.git = Git(str(self.clone), PM)
        config = self.clone / ".git/config"
        config.write_text(config.read_text().replace(str(_born(behaviour)), str(directory)))
        self.watcher: subprocess.Popen[bytes] | None = None

    def commit(self, behaviour: str) -> str:
        (self.clone / "behaviour").write_text(behaviour)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", behaviour.splitlines()[0][:50])
        return self.git("rev-parse", "HEAD")

    def push_main(self) -> str:
        """The PM's clone onto main, where a running watcher may report between a pull and a push; gives the commit."""

        def pushed() -> bool:
            self.git("pull", "-q", "--rebase", "origin", "main")
            return self.git.ok("push", "-q", "origin", "main")

        within(30.0, pushed, "the PM's work on main")
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str, behaviour: str) -> str:
        """A pushed branch with a clone of its own where the watcher looks for it."""
        self.git("checkout", "-q", "-b", name, "main")
        commit = self.commit(behaviour)
        self.git("push", "-q", "origin", name)
        self.git("checkout", "-q", "main")
        subprocess.run(["git", "clone", "-q", "-b", name, self.places.remote, self.places.checkout(name)], check=True)
        return commit

    def start(self, program: str = timed_watcher.PROGRAM, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """`before`: words that start the program elsewhere, as the same process."""
        words = arguments.words(str(self.settings), self.places)
        with open(self.directory / "watcher.err", "ab") as errors:
            self.watcher = subprocess.Popen(
                [*before, *keep_command(program, *words)], env=keep_environment(), cwd="/", stderr=errors, stdout=errors
            )
        return self.watcher

    def stop(self) -> int:
        """Ask the watcher to stop; its exit status."""
        assert self.watcher
        self.watcher.send_signal(signal.SIGTERM)
        return self.watcher.wait(20)

    def ask(self, name: SignalName, target: str) -> None:
        write_signal(self.places.signals, Signal(name, target))

    def state(self) -> State:
        try:
            return watcher_file.decode(Path(self.places.watcher_state).read_bytes())
        except (FileNotFoundError, ValueError):
            return State()

    def serving(self, branch: str = "main", but: str = "", seconds: float = 40.0, **runner: str) -> State:
        """The state once `branch` has said SUCCESS in a boot other than `but`, and its runner is as it is told here."""
        wanted = {"branch": branch} | runner

        def look() -> State | None:
            state = self.state()
            is_it = all(getattr(state.active, name) == value for name, value in wanted.items())
            return state if state.phase == "running" and is_it and state.active.boot_id != but else None

        return within(seconds, look, f"{wanted} running; now {self.state()}")

    def runners(self) -> list[int]:
        """Living processes that were started within a boot of this agent."""
        return [process.pid for process in living("MINIFRAM_BOOT", self.places.bot)]

    def comms(self) -> str:
        return read_file(Git(self.places.remote), "refs/heads/main", "COMMS.md") or ""

    def told(self, words: str) -> str:
        """The page once these words are on it; it is read when main has moved, since reading starts processes."""
        looked_at: str | None = None

        def look() -> str | None:
            nonlocal looked_at
            main = read_tip(self.places.remote, "main")
            if main == looked_at:
                return None
            looked_at, page = main, self.comms()
            return page if words in page else None

        return within(30.0, look, f"{words!r} in COMMS.md")

    def log(self) -> str:
        path = Path(self.places.watcher_log)
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        """End everything that the test started, by its pid."""
        if self.watcher and self.watcher.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.watcher.kill()
                self.watcher.wait()
        shutil.rmtree(self.run, ignore_errors=True)
        pid = self.state().active.pid
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it is over by now
            if pid and self.places.bot.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGKILL)


HOPELESS = (
    'say("BOOTSTRAPPING"); raise SystemExit(1)',
    "timing: {rehearse: false, grace_seconds: 1, boot_seconds: 20, also: {MINIFRAM_BOOT: nothing}}\n",
)
"""Behaviour and settings of an agent whose every runner fails, safe mode too: none can read its boot."""
