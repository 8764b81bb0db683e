"""A PM with a machine of their own: the `minifram` command, a clone, and directories that vanish with the test."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from infra.keep.programs import keep_command, keep_environment
from infra.shared import comms

T = TypeVar("T")

POLITER = """
git checkout -q -b politer
python - <<'END'
from pathlib import Path
path = Path("infra/cell/work/report.py")
text = path.read_text()
said = 'return Report(f"done: {work.subject}", text, '
assert text.count(said) == 1
path.write_text(text.replace(said, said.replace(" text,", ' text + " Thank you.",')))
END
git commit -qam "life: a report ends with a thank you"
git push -q -u origin politer
"""
"""Shell, in a clone of the agent's: an improvement of itself on branch `politer`, with what it is seen by."""


class Owner:
    """One PM with one agent named `agent`."""

    def __init__(self, directory: Path, env: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.run = tempfile.mkdtemp(prefix="mf-")  # short, because a unix socket's path is
        self.env = keep_environment() | {
            "XDG_DATA_HOME": f"{directory}/data",
            "XDG_STATE_HOME": f"{directory}/state",
            "XDG_CONFIG_HOME": f"{directory}/config",
            "XDG_RUNTIME_DIR": self.run,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        self.env |= env or {}
        self.settings = directory / "config/minifram/agent/minifram.yaml"
        self.remote = directory / "data/minifram/agent/remote.git"
        self.bot = directory / "data/minifram/agent/bot"
        self.clone = directory / "pm"
        self.program = "host"
        """The command: `tests.host.timed` has a watcher whose timing is the test's."""

    def minifram(self, *words: str, code: int = 0) -> str:
        """The command's stdout; fails the test when it ends with another code."""
        done = self.run_command(keep_command(self.program, *words), Path("/"))
        assert done.returncode == code, f"minifram {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.minifram(*words, "--json"))

    def git(self, *words: str) -> str:
        done = self.run_command(["git", *words], self.clone)
        assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr}"
        return done.stdout.strip()

    def run_command(self, command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=cwd, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )

    def make_clone(self) -> None:
        subprocess.run(["git", "clone", "-q", self.remote, self.clone], env=self.env, check=True)
        self.git("config", "user.name", "PM")
        self.git("config", "user.email", "pm@example.invalid")

    def keep_one_test(self) -> None:
        """By git, as a PM might: a body with one small test validates itself faster."""
        self.git("rm", "-rq", "tests")
        test = self.clone / "tests/cell/test_it.py"
        test.parent.mkdir(parents=True, exist_ok=True)
        test.write_text("def test_it_stands():\n    assert True\n")
        self.git("add", "tests")
        self.git("commit", "-qm", "one test is enough here")
        self.git("push", "-q")

    def page(self) -> str:
        return subprocess.run(
            ["git", "--git-dir", self.remote, "show", "main:COMMS.md"], capture_output=True, check=True
        ).stdout.decode(errors="surrogateescape")

    def told(self, words: str, seconds: float) -> str:
        """The newest report whose heading or text holds `words`."""

        def look() -> str | None:
            return next((report for report in reversed(comms.reports(self.page())) if words in report), None)

        return self.until(seconds, look, f"a report with {words!r}")

    def until(self, seconds: float, look: Callable[[], T | None], what: str) -> T:
        deadline = time.monotonic() + seconds
        while True:
            found = look()
            if found:
                return found
            if time.monotonic() > deadline:
                logs = self.run_command(keep_command("host", "logs", "-n", "60"), Path("/")).stdout
                seen = f"{self.page()}\n{logs}".encode(errors="backslashreplace").decode()  # xdist sends text alone
                raise AssertionError(f"not seen within {seconds:g} s: {what}\n{seen}")
            time.sleep(0.05)

    def close(self) -> None:
        self.run_command(keep_command("host", "down"), Path("/"))
        shutil.rmtree(self.run, ignore_errors=True)
