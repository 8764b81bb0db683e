"""A small project in a bare repository, and examinations of its branches by the keep's own programs."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from infra.keep.examination.__main__ import judge
from infra.keep.examination.plan import ExaminationSettings
from infra.keep.programs import keep_command, keep_environment
from infra.keep.verdicts import refs, trees
from infra.keep.verdicts.verdict import Verdict
from infra.shared.people import Person
from infra.shared.repository.git import Git

PM = Person("PM", "pm@example.invalid")
NOTHING: Mapping[str, str] = MappingProxyType({})
SETTINGS = ExaminationSettings(rehearse=False, seconds=60.0)
NO_PLUGINS = "-p no:anyio -p no:hypothesispytest -p no:xdist -p no:xdist.looponfail -p no:timeout"
"""They take half the time of a pytest that has little to do, and each examination starts several."""
PROJECT = {
    "infra/__init__.py": "",
    "infra/body.py": "def answer():\n    return 42\n",
    "tests/__init__.py": "",
    "tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef wanted():\n    return 42\n",
    "tests/cell/test_body.py": (
        "import pytest\nfrom infra.body import answer\n\n"
        "def test_it_answers(wanted):\n    assert answer() == wanted\n\n"
        "@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_many(n):\n    assert n\n"
    ),
    "tests/cell/runner/test_same.py": "def test_same():\n    pass\n",
    "pyproject.toml": (
        f"[tool.pytest.ini_options]\npythonpath = ['.']\nmarkers = ['heavy: long']\naddopts = '{NO_PLUGINS}'\n"
    ),
    "COMMS.md": "# page\n",
}


class Scene:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.remote = f"{root}/r.git"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.remote], check=True)
        subprocess.run(["git", "init", "-q", "-b", "main", f"{root}/w"], check=True)
        self.git = Git(f"{root}/w", PM)
        self.git("remote", "add", "origin", self.remote)
        self.bare = Git(self.remote, PM)
        self.push("main", PROJECT)

    def push(self, branch: str, files: Mapping[str, str | None]) -> str:
        """A commit with these files on a branch that begins at main; None removes one."""
        for path, text in files.items():
            file = self.root / "w" / path
            if text is None:
                self.git("rm", "-q", "-r", path)
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", branch)
        commit = self.git("rev-parse", "HEAD")
        self.git("push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        self.git("reset", "-q", "--hard", "origin/main")
        return commit

    def main(self, files: Mapping[str, str | None]) -> None:
        """Have main change these files first."""
        self.push("main", files)
        self.git("fetch", "-q", "origin")
        self.git("reset", "-q", "--hard", "origin/main")

    def examine(
        self,
        files: Mapping[str, str | None],
        settings: ExaminationSettings = SETTINGS,
        examiner: Sequence[str] = (),
        env: Mapping[str, str] = NOTHING,
    ) -> Verdict:
        """Of a branch that changes these files; more words for the examiner, and more of its environment."""
        return self.verdict(self.push("branch", files), settings, examiner, env)

    def verdict(
        self,
        commit: str,
        settings: ExaminationSettings = SETTINGS,
        examiner: Sequence[str] = (),
        env: Mapping[str, str] = NOTHING,
    ) -> Verdict:
        one, other = socket.socketpair()
        words = keep_command("infra.keep.examination", "examine", *examiner)
        with (
            one,
            subprocess.Popen(
                words, stdin=other.fileno(), stderr=subprocess.PIPE, cwd="/", env=keep_environment() | dict(env)
            ) as process,
        ):
            other.close()
            judge(self.remote, "branch", commit, settings, one)
            assert process.stderr
            said = process.stderr.read().decode()
        key = trees.key_of(self.bare, trees.merged(self.bare, self.bare("rev-parse", "main"), commit))
        found = refs.find(self.bare, key)
        assert found, said
        return found
