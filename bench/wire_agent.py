"""A whole agent on a provider of ours: watcher, both doors, and the runner that `minifram init` gives; a conversation
is what it makes of one directive."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench.decisions import Answer
from bench.provider import Provider, Turn
from bench.scene import PM, born, doors_answer, places_in, within
from infra.keep.services import processes
from infra.shared import arguments, watcher_file
from infra.shared.paths import Paths
from infra.shared.programs import keep_command, keep_environment
from infra.shared.repository.git import Git, GitError

PATIENCE_SECONDS = 60.0
SETTINGS = """\
rehearse: false
model:
  provider: anthropic
  name: claude-bench
  base_url: {url}
  acts: {acts}
  prices: {{claude-bench: {{input: 1.0, output: 1.0}}}}
budget: {{daily_usd: 1000000, daily_tokens: 900000000000, unit_usd: 1000000, unit_tokens: 900000000000}}
limits: {{unit_steps: 100000, steps_per_hour: 100000000, tokens_per_hour: 900000000000}}
"""


def write_key(places: Paths) -> None:
    """One that opens nothing, where the model door looks for it."""
    os.makedirs(places.secrets, mode=0o700)
    key = os.open(f"{places.secrets}/anthropic_api_key", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(key, b"bench-key-that-opens-nothing")
    os.close(key)


class WireAgent:
    """Lives until it is closed."""

    def __init__(self, directory: Path, provider: Provider, acts: str = "tools") -> None:
        directory.mkdir()
        self._provider = provider
        self.places = places_in(directory)
        born(self.places)
        settings = directory / "minifram.yaml"
        settings.write_text(SETTINGS.format(url=provider.url, acts=acts))
        write_key(self.places)
        self._errors = directory / "watcher.err"
        words = arguments.words(str(settings), self.places)
        with open(self._errors, "wb") as errors:
            self._watcher = subprocess.Popen(
                keep_command("infra.watcher", *words),
                env=keep_environment(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )
        within(PATIENCE_SECONDS, self._is_running, "the agent running")
        self._clone = Git(str(directory / "pm"), PM)
        Git(str(directory), PM)("clone", "--quiet", self.places.remote, str(directory / "pm"))
        self._page = directory / "pm/COMMS.md"
        self._said = 0

    def converse(self, replies: Sequence[Answer]) -> tuple[list[Turn], float]:
        """One directive from the first model call to the last; gives the turns, and the processor time of all of it."""
        before = self._processor_seconds()
        self._provider.play(replies)
        self._direct()
        turns = self._provider.finished(PATIENCE_SECONDS)
        used = self._processor_seconds() - before
        within(PATIENCE_SECONDS, self._is_reported, "the report on main")
        return turns, used

    def close(self) -> None:
        self._watcher.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._watcher.wait(PATIENCE_SECONDS)
        if self._watcher.poll() is None:
            self._watcher.kill()
            self._watcher.wait()
        processes.end_strays(self.places, "")

    def _direct(self) -> None:
        """As a PM does it: written into the page, and pushed."""
        self._said += 1
        while True:
            self._clone("fetch", "--quiet", "origin", "main")
            self._clone("reset", "--quiet", "--hard", "origin/main")
            head, title, rest = self._page.read_text().partition("## Directives\n")
            self._page.write_text(f"{head}{title}\n- [ ] Take steps, time {self._said}.\n{rest}")
            self._clone("commit", "--quiet", "--all", "--message", "a directive")
            try:
                self._clone("push", "--quiet", "origin", "HEAD:main")
            except GitError:  # the agent has reported meanwhile
                continue
            return

    def _is_reported(self) -> bool:
        self._clone("fetch", "--quiet", "origin", "main")
        return f"- [x] Take steps, time {self._said}." in self._clone("show", "origin/main:COMMS.md")

    def _is_running(self) -> bool:
        if self._watcher.poll() is not None:
            raise RuntimeError(f"the watcher ended with {self._watcher.returncode}: {self._errors.read_text()[-2000:]}")
        with contextlib.suppress(FileNotFoundError, ValueError):
            state = watcher_file.decode(Path(self.places.watcher_state).read_bytes())
            return state.phase == "running" and doors_answer(self.places)
        return False

    def _processor_seconds(self) -> float:
        """Of the doors and the runner, with all that they have started; not the watcher's, which takes no part."""
        used = 0.0
        for child in psutil.Process(self._watcher.pid).children():
            with contextlib.suppress(psutil.Error):
                used += sum(child.cpu_times()[:4])
        return used
