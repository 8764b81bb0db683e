"""Candidates: clones of this project's own tree with one thing changed in a commit, and the rehearsal as a process."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import psutil

from infra.keep.rehearsal import verdict
from infra.keep.rehearsal.verdict import RehearsalVerdict
from infra.keep.services.children import in_memory
from infra.keep.verdicts import trees
from infra.shared.people import Person
from infra.shared.repository.git import Git
from tests.keep.supervision.agents import within

PROJECT = str(Path(__file__).parents[3])
TREE = ("infra", "SYSTEM.md", "COMMS.md", ".gitignore", ".gitattributes")
UNUSED = shutil.ignore_patterns("__pycache__", "keep")
"""No runner needs the keep's code, which is half of all that each clone would check out and compile."""
SOMEBODY = Person("somebody", "somebody@example.invalid")
BRANCH = "candidate"
ENOUGH_SECONDS = 60.0
"""For candidates that need not be waited for: a busy machine gets no verdict wrong by it."""


def make_template(root: str) -> str:
    """A repository of one commit with the tree that is tested; gives its path."""
    template = f"{root}/template"
    os.makedirs(template)
    for name in TREE:
        source = f"{PROJECT}/{name}"
        if os.path.isdir(source):
            shutil.copytree(source, f"{template}/{name}", ignore=UNUSED)
        else:
            shutil.copy2(source, f"{template}/{name}")
    git = Git(template, SOMEBODY)
    git("init", "--quiet", "--template=", "--initial-branch", BRANCH)
    git("add", "--all")
    git("commit", "--quiet", "--message", "this version")
    return template


class Bench:
    """Where candidates are made and rehearsed, with a scratch directory."""

    def __init__(self, template: str, root: str) -> None:
        self.checkout = f"{root}/checkout"
        Git(root)("clone", "--quiet", "--template=", "--no-hardlinks", template, self.checkout)
        self.git = Git(self.checkout, SOMEBODY)
        # A unix socket's path must be short, and a test's own directory may not be.
        self.scratch = tempfile.mkdtemp(prefix="mf-", dir="/tmp")
        self._started: list[subprocess.Popen[bytes]] = []

    def change(self, path: str, old: str, new: str) -> None:
        """Commit a candidate that differs in the one place of a file that reads `old`."""
        file = Path(self.checkout, path)
        text = file.read_text()
        assert text.count(old) == 1, f"{path} has {text.count(old)} times: {old}"
        file.write_text(text.replace(old, new))
        self.git("commit", "--quiet", "--all", "--message", "a change")

    def start(self, seconds: float = ENOUGH_SECONDS) -> subprocess.Popen[bytes]:
        commit = self.git("rev-parse", "HEAD")
        with in_memory(trees.pack(self.git, commit)) as pack:
            process = subprocess.Popen(
                verdict.command(commit, self.scratch, sys.executable, seconds),
                cwd="/",
                env=verdict.environment(),
                stdin=pack.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        self._started.append(process)
        return process

    def rehearse(self, seconds: float = ENOUGH_SECONDS) -> RehearsalVerdict:
        """The verdict, once it is seen that no process is left of the rehearsal."""
        process = self.start(seconds)
        stdout, stderr = process.communicate(timeout=verdict.longest_seconds(seconds))
        assert stderr == b"", stderr.decode()
        assert self.running() == []
        return verdict.read_verdict(stdout)

    def running(self, words: str = "") -> list[psutil.Process]:
        """Processes that have to do with the scratch directory, by their directory or command line."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                place = " ".join([process.cwd(), *process.cmdline()])
                if self.scratch in place and words in place and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def until(self, words: str) -> psutil.Process:
        """The process within a rehearsal whose command line has these words."""
        return within(30.0, lambda: next(iter(self.running(words)), None), words)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=30)
        for stray in self.running():
            stray.send_signal(signal.SIGKILL)
        shutil.rmtree(self.scratch)


LIVE = '    cell.log.info("runner.started", reason=boot.reason, autonomy=boot.autonomy)\n'

BROKEN: Mapping[str, tuple[str, str, str, str, str]] = {
    # what: file, old, new, step, words of the reason or the transcript
    "cannot be imported": (
        "infra/runner.py",
        "import sys\n",
        "import sys\nimport no_such_module\n",
        "boot",
        "No module named 'no_such_module'",
    ),
    "dies after SUCCESS": (
        "infra/runner.py",
        LIVE,
        f"{LIVE}    sys.exit(3)\n",
        "directive",
        "ended with exit status 3",
    ),
    "cannot write files": (
        "infra/cell/tools/files.py",
        "        path, content = given.path, given.content.encode()\n",
        "        raise OSError('no ink')\n",
        "write",
        "did not make src/rehearsal.md in the checkout",
    ),
    "commits and never pushes": (
        "infra/cell/tools/bash.py",
        '["bash", "-c", given.command]',
        '["bash", "-c", given.command.replace("git push", "true")]',
        "push",
        "not on main",
    ),
    "reports and never ticks": (
        "infra/cell/page.py",
        "ticks[:MAX_TICKS], tasks",
        "(), tasks",
        "report",
        "is not ticked",
    ),
    "cannot use its bootstrap tool": (
        "infra/cell/tools/hop.py",
        "        tip = _tip(git, branch)\n",
        "        raise ToolError('no legs')\n",
        "bootstrap",
        "by a tool that gave it the turn back",
    ),
    "writes a file without end": (
        "infra/runner.py",
        LIVE,
        f"{LIVE}    with open('logs/large', 'wb') as file:\n        file.write(bytes(65 << 20))\n",
        "directive",
        "File too large",
    ),
    "comes up only once": (
        "infra/cell/life/start.py",
        '    with needs("bash cannot be run"):',
        '    os.mkdir("logs/once")\n    with needs("bash cannot be run"):',
        "restart",
        "FileExistsError",
    ),
    "hangs before SUCCESS": (
        "infra/cell/life/start.py",
        '    with needs("bash cannot be run"):',
        '    time.sleep(600)\n    with needs("bash cannot be run"):',
        "boot",
        "not seen within",
    ),
    "signals and stays": (
        "infra/runner.py",
        "        return lead(cell)",
        "        lead(cell)\n        while True:\n            time.sleep(600)",
        "leave",
        "its end after its own signal",
    ),
    "does not obey SIGTERM": (
        "infra/runner.py",
        "lambda number, frame: interruption.ask())",
        "signal.SIG_IGN)",
        "stop",
        "its end after SIGTERM",
    ),
}
"""One for each step, and what no step is to be kept waiting by."""
SLOW = {"hangs before SUCCESS": 6.0, "signals and stays": 20.0, "does not obey SIGTERM": 15.0}
"""Seconds for what is only found out by waiting for it; more for those that have to come to their end first."""
