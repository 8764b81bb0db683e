"""A PM's desk for tests: directories of its own, a small project to be born from, and the command.

`run` calls the command in this process with an environment that is handed in; `spawn` starts a real one."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from host import repository as bare
from host.cli import main
from host.home import AgentPaths, Context
from infra.cell.status import WORKING, RunnerStatus, write_status
from infra.keep.ledger.lines import Ledger, Opened, Settled
from infra.keep.repository.bare_tip import BareTip
from infra.keep.verdicts import refs, trees
from infra.keep.verdicts.verdict import Counts, Verdict
from infra.shared import comms
from infra.shared.conversation import Usage, to_plain
from infra.shared.people import AGENT
from infra.shared.repository.git import EMPTY_TREE, Git, resolve_commit
from infra.shared.repository.tip import advance, commit_tree, edit_file, tree_with
from tests.host.ready import OWN_START, Ready
from tests.host.ready import Ended as Ended

PROJECT = Path(__file__).parents[2]
HERE = Path(__file__).parent

PAGE = "# COMMS\n\n## Directives\n\n## Reports\n"
FILES = {
    "SYSTEM.md": "You are an agent.\n",
    "COMMS.md": PAGE,
    "spec/SPEC_SYSTEM.md": "# It MUST work.\n",
    "infra/__init__.py": "",
    "infra/runner.py": "print('I live')\n",
    "infra/shared/__init__.py": "",
    "infra/__pycache__/runner.cpython-311.pyc": "not for the agent",
    "infra/logs/errors.log": "not for the agent",
    "pyproject.toml": '[project]\nname = "minifram"\nversion = "9.8.7"\n',
    "requirements.lock": "click==8.5.1 \\\n    --hash=sha256:00\n",
    ".gitignore": "logs/\n",
    ".gitattributes": "COMMS.md merge=union\n",
    "bot-template/README.md": "stays in the project\n",
    "bot-template/body/src/README.md": "Your work goes here.\n",
    "bot-template/mind/boot/identity.md": "# Identity\n",
    "tests/__init__.py": "",
    "tests/shared/__init__.py": "",
    "tests/shared/test_words.py": "def test_words():\n    assert True\n",
    "tests/host/test_secret.py": "not for the agent",
    "host/cli.py": "not for the agent",
}


@functools.cache
def _ready() -> Ready:
    command = [sys.executable, str(HERE / "launcher.py"), "--serve"]
    return Ready(command, os.environ | {"LANG": "C.UTF-8"}, os.geteuid(), os.getegid(), os.getcwd())


class Desk:
    """Everything of one PM below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project = root / "project"
        self.environ = {
            "HOME": str(root / "pm"),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "XDG_DATA_HOME": str(root / "data"),
            "XDG_STATE_HOME": str(root / "state"),
            "XDG_CONFIG_HOME": str(root / "config"),
            "XDG_RUNTIME_DIR": str(root / "run"),
        }
        (root / "pm").mkdir()
        (root / "run").mkdir(mode=0o700)

    def write_project(self) -> None:
        for name, content in FILES.items():
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def like(self, other: Desk) -> None:
        """Take over everything that lies on another desk."""
        for path in other.root.iterdir():
            shutil.copytree(path, self.root / path.name, symlinks=True, dirs_exist_ok=True)

    def context(self, watcher: str = "works", **environ: str) -> Context:
        program = (sys.executable, "-s", "-P", str(HERE / "stand_in.py"), watcher)
        given = self.environ | environ
        return Context(given, os.getuid(), str(self.project), program, given.get("MINIFRAM_AGENT") or "agent")

    def home(self, agent: str = "agent") -> AgentPaths:
        return self.context()._replace(agent=agent).home

    def run(self, *words: str, **environ: str) -> Ended:
        """The command in this process; its output is no terminal. `NAME@TIP` stands for the branch at its commit."""
        words = tuple(self.at_tip(word) for word in words)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words, self.context(**environ))
        return Ended(int(code), out.getvalue(), err.getvalue())

    def done(self, *words: str, **environ: str) -> Ended:
        """The same, where anything but success is a mistake of the test."""
        ended = self.run(*words, **environ)
        assert ended.code == 0, ended
        return ended

    def spawn(
        self, *words: str, watcher: str = "works", stdin: int = subprocess.DEVNULL, **environ: str
    ) -> subprocess.Popen[str]:
        """The command as a process of its own, with `watcher` as the behaviour of the stand-in."""
        words = tuple(self.at_tip(word) for word in words)
        return subprocess.Popen(
            [sys.executable, str(HERE / "launcher.py"), str(self.project), watcher, *words],
            env=self.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environ,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *words: str, watcher: str = "works", **environ: str) -> Ended:
        """`spawn`, waited for."""
        if not any(name.startswith(OWN_START) for name in environ):
            given = self.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environ
            return _ready().call([str(self.project), watcher, *map(self.at_tip, words)], given, 60.0)
        with self.spawn(*words, watcher=watcher, stdin=subprocess.DEVNULL, **environ) as process:
            out, err = process.communicate(timeout=60)
        return Ended(process.returncode, out, err)

    def git(self, agent: str = "agent") -> Git:
        return bare.git_on(self.home(agent).remote, AGENT)

    def main(self, agent: str = "agent") -> str:
        return self.git(agent)("rev-parse", "refs/heads/main")

    def page(self) -> str:
        return self.git()("cat-file", "blob", "main:COMMS.md") + "\n"

    def write_page(self, text: str) -> str:
        """Put this COMMS.md on main."""
        git = self.git()
        return advance(BareTip(git), edit_file(git, "COMMS.md", lambda _: text, "the page"))

    def report(self, title: str, text: str = "Done.", at: str = "2026-01-31T10:42:12.345Z") -> str:
        """The agent reports on main."""
        git = self.git()
        edit = edit_file(git, "COMMS.md", lambda page: comms.add_report(page, title, text, at), "report")
        return advance(BareTip(git), edit)

    def branch(self, name: str, files: dict[str, str], message: str = "a change", start: str = "main") -> str:
        """The agent pushes a commit with these files to a branch, made at `start` when it is new."""
        base = self.git()("rev-parse", start)
        commit = self._commit(name, files, base, (base,), message)
        # In a file, so that a copy of this desk, or one whose repository is damaged, knows it too.
        (self.root / "tips" / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / "tips" / name).write_text(commit)
        return commit

    def puts_mind(self, files: dict[str, str]) -> str:
        """A commit with these files on the branch mind, which begins with the first."""
        base = resolve_commit(self.git(), "refs/heads/mind")
        return self._commit("mind", files, base or EMPTY_TREE, (base,) if base else (), "the mind")

    def _commit(self, branch: str, files: dict[str, str], tree: str, parents: tuple[str, ...], message: str) -> str:
        git = self.git()
        blobs: dict[str, str | None] = {
            path: git("hash-object", "-w", "--stdin", stdin=text.encode(errors="surrogateescape"))
            for path, text in files.items()
        }
        commit = commit_tree(git, tree_with(git, tree, blobs), parents, message)
        git("update-ref", f"refs/heads/{branch}", commit)
        return commit

    def at_tip(self, word: str) -> str:
        name, tip, _ = word.partition("@TIP")
        return f"{name}@{(self.root / 'tips' / name).read_text()}" if tip else word

    def examined(self, branch: str, commit: str, why: str = "", word: tuple[str, ...] = ()) -> None:
        """The keep has examined what merging this commit would make of main now; it has passed unless `why` not."""
        git, main = self.git(), self.main()
        key = trees.key_of(git, trees.merged(git, main, commit))
        counts = Counts(passed=12, failed=1 if why else 0)
        refs.keep(
            git,
            Verdict(
                key, branch, commit, main, not why, why, rehearsed=True, mains=counts, needs_word=word, at=time.time()
            ),
        )

    def works(self, *doing: Any) -> Path:
        """The runner of main says what it does."""
        path = self.log("main", "life.json", "")
        write_status(str(path), RunnerStatus(WORKING, "2026-01-31T10:42:12.345Z", "build a thing", *doing))
        return path

    def log(self, branch: str, name: str, text: str) -> Path:
        """A log file of a checkout of the agent's."""
        path = Path(self.home().places.bot) / branch / "minifram" / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(text)
        return path


def pay(ledger: str, usd: float, tokens: int, day: str, *, run: str = "", id: str = "1", settle: bool = True) -> None:
    """The keep's ledger has one more call; while it is not settled, twice as much may come of it."""
    call: dict[str, Any] = {
        "time": f"{day}T00:00:00.000Z",
        "day": day,
        "id": id,
        "provider": "scripted",
        "model": "m",
        "run": run,
    }
    lines = Ledger(ledger)
    lines.append(Opened(**call, worst_usd=2 * usd, worst_tokens=2 * tokens))
    if settle:
        lines.append(Settled(**call, **to_plain(Usage(tokens, 0)), usd=usd, duration_ms=1))
    lines.close()
