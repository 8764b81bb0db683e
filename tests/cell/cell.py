"""One agent in a temporary place: a bare repository, the PM's clone, the agent's clone of main, both doors, and runners
as real child processes: this project's own, from a directory of code as the keep makes one."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from infra.cell.cell import Cell as RunnersCell
from infra.cell.cell import cell_of
from infra.cell.interruption import Interruption
from infra.cell.loop.record import Line, parse
from infra.keep.repository.page_text import archived
from infra.keep.services.children import runner_command
from infra.keep.services.hearts import Heartbeat
from infra.shared import boot, comms
from infra.shared.boot import Boot, Limits
from infra.shared.conversation import Completion, Request
from infra.shared.paths import ARCHIVE, BOOT_LOG, ERROR_LOG, Paths
from infra.shared.people import Person
from infra.shared.repository.git import Git
from infra.shared.repository.merge import merge_commit
from infra.shared.repository.tip import read_file
from tests.cell.doors import POLL_SECONDS, GitDoor, ModelDoor
from tests.cell.loop.waiting import wait_for
from tests.shared.repository.history import bare_repository, commit

PROJECT = str(Path(__file__).parents[2])
PM = Person("PM", "pm@example.invalid")
DEADLINE_SECONDS = 20.0
TEMPLATES_REMOTE = "/the/remote/of/the/template"
"""Where the template's clone has its remote; each copy of it has its own."""

FILES = {
    "SYSTEM.md": "You are an agent.\n",
    "COMMS.md": "# The page\n\n## Directives\n\n## Reports\n",
    ".gitignore": "logs/\n__pycache__/\n*.pyc\n",
    ".gitattributes": "COMMS.md merge=union\n",
    "tests/test_body.py": "def test_this_version_is_fine():\n    assert True\n",
    "src/notes.md": "a note\n",
    "infra/runner.py": "",
}


def limits(**other: Any) -> Limits:
    usual = {
        "bash_seconds": 20,
        "output_chars": 20_000,
        "run_steps": 20,
        "run_seconds": 30,
        "validation_seconds": 60,
        "work_seconds": 600,
        "door_seconds": 5,
        "context_tokens": 100_000,
    }
    return Limits(**usual | other)


def make_template(root: str) -> None:
    """A bare repository, the agent's clone and the code, to be copied for each test."""
    git = Git(root, PM)
    commit(bare_repository(Path(root, "remote.git")), {**FILES})
    os.makedirs(f"{root}/bot/main")
    git("clone", "--quiet", "--template=", "--no-hardlinks", "remote.git", "bot/main/minifram")
    Git(f"{root}/bot/main/minifram")("remote", "set-url", "origin", TEMPLATES_REMOTE)
    write(f"{root}/code/SYSTEM.md", FILES["SYSTEM.md"])
    os.symlink(f"{PROJECT}/infra", f"{root}/code/infra")


def write(path: str, content: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


class Runner:
    """A runner that was started as the watcher does it."""

    def __init__(self, process: subprocess.Popen[bytes], boot: Boot) -> None:
        self.process = process
        self.boot = boot
        self.checkout = boot.places.checkout(boot.branch)

    def words(self) -> list[str]:
        """The words of its boot, in order."""
        return [line.word for line in self.lines()]

    def lines(self) -> list[boot.BootLine]:
        path = f"{self.checkout}/{BOOT_LOG}"
        if not os.path.exists(path):
            return []
        parsed = [boot.parse_line(line) for line in read(path).splitlines(keepends=True)]
        return [line for line in parsed if line and line.boot_id == self.boot.id]

    def log(self) -> str:
        return read(f"{self.checkout}/{ERROR_LOG}")

    def doing(self) -> str:
        path = f"{self.checkout}/logs/life.json"
        return read(path) if os.path.exists(path) else ""

    def serves(self) -> None:
        wait_for(lambda: "SUCCESS" in self.words() or self.process.poll() is not None, "SUCCESS")
        assert "SUCCESS" in self.words(), self.log()

    def sleeps(self) -> None:
        wait_for(lambda: '"sleeping"' in self.doing() or self.process.poll() is not None, "sleep")
        assert self.process.poll() is None, self.log()

    def ended(self, seconds: float = DEADLINE_SECONDS) -> int:
        return self.process.wait(seconds)

    def ask_to_end(self) -> None:
        os.kill(self.process.pid, signal.SIGTERM)


class Cell:
    """Everything around a runner."""

    def __init__(self, template: str, root: str) -> None:
        shutil.copytree(template, root, symlinks=True, dirs_exist_ok=True)
        # A socket's path must be short, wherever the temporary directory of the tests is.
        self._run = tempfile.mkdtemp(prefix="mf-", dir="/tmp")
        self.places = Paths(bot=f"{root}/bot", remote=f"{root}/remote.git", run=self._run, var=f"{root}/var")
        os.makedirs(self.places.var, exist_ok=True)
        self.checkout = self.places.main_checkout
        self.code = f"{root}/code"
        write(self.places.cell_git_config, "[user]\n\tname = an agent\n\temail = agent@example.invalid\n")
        self.bare = Git(self.places.remote, PM)
        settings = f"{self.checkout}/.git/config"
        write(settings, read(settings).replace(TEMPLATES_REMOTE, self.places.remote))
        self._model: ModelDoor | None = None
        self._git_door: GitDoor | None = None
        self._runners: list[Runner] = []
        self._seen = ("", "")

    # The doors are opened when a test first has to do with them.

    @property
    def model(self) -> ModelDoor:
        if self._model is None:
            self._model = ModelDoor(self.places.model_socket)
        return self._model

    def open_git_door(self, poll_seconds: float = POLL_SECONDS) -> None:
        if self._git_door is None:
            self._git_door = GitDoor(self.places, poll_seconds)

    def close_git_door(self) -> None:
        if self._git_door:
            self._git_door.close()
        self._git_door = None

    def open_doors(self) -> None:
        self.open_git_door()
        assert self.model

    def close(self) -> None:
        for runner in self._runners:
            if runner.process.poll() is None:
                runner.process.kill()
            runner.process.wait()
        self.close_git_door()
        if self._model:
            self._model.close()
        shutil.rmtree(self._run)

    def boot(self, branch: str = "main", **other: Any) -> Boot:
        commit, boot_id = Git(self.places.checkout(branch))("rev-parse", "HEAD"), secrets.token_hex(16)
        remote, code = self.places.remote, self.code
        value = Boot(boot_id, branch, commit, "start", remote, "merge", self.places, limits(), code=code)
        return msgspec.structs.replace(value, **other)

    def start(self, value: Boot, text: str | None = None, heart: Heartbeat | None = None) -> Runner:
        """Start a runner as the watcher would; `text` is what it is told instead of `value`: with nothing, by hand."""
        self.open_doors()
        checkout = self.places.checkout(value.branch)
        os.makedirs(f"{checkout}/logs", exist_ok=True)
        told = {boot.VARIABLE: boot.to_json(value) if text is None else text}
        with open(f"{checkout}/{ERROR_LOG}", "ab") as errors:
            process = subprocess.Popen(
                runner_command(value.code, boot=None if text == "" else value),
                cwd=checkout,
                env=self.environment() | told | (heart.environment if heart else {}),
                pass_fds=heart.descriptors if heart else (),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )
        runner = Runner(process, value)
        self._runners.append(runner)
        return runner

    def record(self) -> list[Line]:
        """Of the only run."""
        [path] = Path(self.checkout, "logs/transcripts").iterdir()
        return parse(path.read_bytes())

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": self.places.bot,
            "GIT_CONFIG_GLOBAL": self.places.cell_git_config,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }

    def context(self, model: Callable[[Request], Completion] | None = None, **other: Any) -> RunnersCell:
        """The surroundings of a runner on main that runs in this very process."""
        os.makedirs(f"{self.checkout}/logs", exist_ok=True)
        self.open_git_door()
        made = cell_of(self.boot(**other), self.checkout, Interruption())._replace(pause=lambda seconds: None)
        return made._replace(ask=model) if model else made

    # The PM's side.

    def page(self) -> str:
        """Tests look at it again and again while they wait: git is asked once for each commit."""
        commit = self.main()
        if commit != self._seen[0]:
            self._seen = (commit, read_file(self.bare, commit, "COMMS.md") or "")
        return self._seen[1]

    def reports(self) -> list[str]:
        return comms.reports(self.page())

    def all_reports(self) -> list[str]:
        """Those that have left the page as well."""
        return [*archived(read_file(self.bare, "main", ARCHIVE) or ""), *self.reports()]

    def reported(self, words: str) -> bool:
        return any(words in report for report in self.reports())

    def open(self) -> list[str]:
        return [directive.text for directive in comms.open_directives(self.page())]

    def tell(self, text: str) -> None:
        self.pm_edits(lambda page: comms.add_directive(page, text), f"tell: {text}")

    def pm_edits(self, edit: Callable[[str], str], message: str) -> None:
        self.pm_changes({"COMMS.md": edit(self.page())}, message)

    def pm_changes(self, files: dict[str, str], message: str) -> str:
        """Put these files on main, as after a push, and in a hundredth of its time; gives the commit. Nobody else may
        move main meanwhile."""
        stream = f"commit refs/heads/main\nmark :1\ncommitter {PM.name} <{PM.email}> now\n"
        stream += f"data {len(message.encode())}\n{message}\nfrom {self.main()}\n"
        stream += "".join(f"M 644 inline {path}\ndata {len(text.encode())}\n{text}\n" for path, text in files.items())
        words = ("-c", "fastimport.unpackLimit=1", "fast-import", "--quiet", "--date-format=now")
        return self.bare(*words, stdin=f"{stream}get-mark :1\n".encode())

    def pm_merges(self, branch: str) -> None:
        taken = merge_commit(self.bare, self.main(), self.bare("rev-parse", f"refs/heads/{branch}"), "taken")
        self.bare("update-ref", "refs/heads/main", str(taken))

    def main(self) -> str:
        try:
            return read(f"{self.places.remote}/refs/heads/main").strip()
        except OSError:  # packed
            return self.bare("rev-parse", "main")

    # The agent's side.

    def branch(self, name: str, files: dict[str, str]) -> Git:
        """A pushed branch with a clone of its own that changes these files."""
        clone = self.places.checkout(name)
        shutil.copytree(self.checkout, clone, symlinks=True)
        shutil.rmtree(f"{clone}/logs", ignore_errors=True)
        git = Git(clone, Person("an agent", "agent@example.invalid"))
        git("fetch", "--quiet", "origin")
        git("checkout", "--quiet", "-B", name, "origin/main")
        for path, content in files.items():
            write(f"{clone}/{path}", content)
        git("add", "--all")
        git("commit", "--quiet", "--message", f"{name}: a change")
        git("push", "--quiet", "origin", name)
        return git

    def signal(self) -> str:
        """What the watcher is asked for; empty when nothing is."""
        path = f"{self.places.signals}/bootstrap"
        return read(path).strip() if os.path.exists(path) else ""
