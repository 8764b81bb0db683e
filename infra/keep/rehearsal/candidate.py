"""A candidate's runner as a process: started as the watcher starts one, with less of the machine."""

from __future__ import annotations

import resource
import secrets
import signal
import subprocess
from dataclasses import dataclass

from infra.keep import code, watcher_file
from infra.keep.boot_files import boot_words, last_words, open_error_log
from infra.keep.git_door.setup import at_most
from infra.keep.rehearsal.scene import Scene
from infra.keep.services import children, processes
from infra.shared.boot import Boot, BootLine, Limits
from infra.shared.files import write_whole
from infra.shared.paths import BOOT_LOG
from infra.shared.safe_files import Below

MEMORY_BYTES = 4 << 30
FILE_BYTES = 64 << 20
"""Of one file, such as its log."""
ROTATE_OVER = 1 << 30


@dataclass(frozen=True)
class CandidateRunner:
    """One boot of the version that is rehearsed."""

    boot: Boot
    process: subprocess.Popen[bytes]

    @property
    def checkout(self) -> str:
        return self.boot.places.main_checkout

    @property
    def files(self) -> Below:
        return Below(self.boot.places.bot)

    def words(self) -> dict[str, BootLine]:
        return boot_words(self.files, self.checkout, self.boot.id, self.boot.branch, self.boot.commit)

    def is_over(self) -> bool:
        return self.process.poll() is not None

    def how_it_ended(self) -> str:
        """For a process that is over."""
        return processes.how_it_ended(self.process.returncode)

    def ask_to_end(self) -> None:
        processes.ask_group(self.process.pid, signal.SIGTERM)


def start(scene: Scene, python: str, commit: str, reason: str, seconds: float) -> CandidateRunner:
    """Raises NoCode, GitError, OSError."""
    places = scene.places
    limits = Limits(
        bash_seconds=seconds,
        run_steps=20,
        run_seconds=seconds,
        validation_seconds=seconds,
        door_seconds=seconds,
        context_tokens=100_000,
    )
    copy = code.export(scene.bare, commit, scene.root)
    boot = Boot(secrets.token_hex(16), "main", commit, reason, places.remote, "merge", places, limits, code=copy)
    errors, _ = open_error_log(Below(places.bot), places.main_checkout, ROTATE_OVER)
    with open(errors, "ab") as log:
        process = children.spawn(boot, children.runner_command(copy, python, boot), log.fileno(), under=bounded())
    # As a watcher does, for the git door: who may speak for the agent.
    noted = watcher_file.Runner(boot_id=boot.id, branch=boot.branch, commit=boot.commit, pid=process.pid)
    write_whole(places.watcher_state, watcher_file.encode(watcher_file.State(runner=noted)))
    return CandidateRunner(boot, process)


def bounded() -> list[str]:
    """With limits of its own; where the machine allows less than these, it has less."""
    memory, file = at_most(MEMORY_BYTES, resource.RLIMIT_AS), at_most(FILE_BYTES, resource.RLIMIT_FSIZE)
    return ["prlimit", f"--as={memory}", f"--fsize={file}", "--core=0", "--"]


def transcript(scene: Scene) -> str:
    """The end of what the candidate's logs say."""
    bot, checkout = Below(scene.places.bot), scene.places.main_checkout
    boots = bot.tail(f"{checkout}/{BOOT_LOG}", 1000).decode(errors="replace")
    return f"boot log:\n{boots.strip()}\n\nerrors.log:\n{last_words(bot, checkout, 0)}"
