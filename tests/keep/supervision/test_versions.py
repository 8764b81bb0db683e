"""What is another version: the id that failures, pins and known-good versions are recorded by."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from infra.keep.code import version_of
from infra.keep.services.children import runner_command
from infra.shared.repository.git import Git
from tests.cell.cell import PM

FILES = {
    "infra/__init__.py": "",
    "infra/runner.py": "print('the runner')\n",
    "infra/shared/__init__.py": "",
    "requirements.txt": "",
    "SYSTEM.md": "You are an agent.\n",
}


@pytest.fixture
def git(tmp_path: Path) -> Git:
    git = Git(str(tmp_path), PM)
    git("init", "-q", "-b", "main")
    commit(git, FILES)
    return git


def commit(git: Git, files: dict[str, str]) -> str:
    for name, content in files.items():
        path = Path(git.directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    git("add", "-A")
    git("commit", "-q", "-m", "a version")
    return git("rev-parse", "HEAD")


@pytest.mark.parametrize(
    "files",
    [
        {"infra/runner/__init__.py": "", "infra/runner/__main__.py": "print('another')\n"},
        {"infra/tools/__init__.py": ""},
        {"infra/Runner.py": ""},
    ],
)
def test_whatever_the_runner_could_import_from_infra_is_another_version(git: Git, files: dict[str, str]) -> None:
    """Else a bad main would be pinned with the good one, and a running agent would never make way for it."""
    before = git("rev-parse", "HEAD")
    after = commit(git, files)
    one, other = version_of(git, before), version_of(git, after)
    assert one.id != other.id


def test_the_keeps_part_of_a_checkout_is_no_part_of_the_version(git: Git) -> None:
    """It runs nowhere: a change of it restarts no runner, and gives a main that cannot live no second chance."""
    before = commit(git, {"infra/keep/__init__.py": "", "infra/watcher.py": ""})
    after = commit(git, {"infra/keep/limits/judge.py": "1 / 0\n", "infra/watcher.py": "1 / 0\n"})
    one, other = version_of(git, before), version_of(git, after)
    assert one.id == other.id
    assert version_of(git, commit(git, {"infra/tools.py": ""})).id != other.id


def test_python_runs_a_package_in_the_place_of_the_runner(git: Git) -> None:
    """Why the name of a file does not say what runs."""
    commit(git, {"infra/runner/__init__.py": "", "infra/runner/__main__.py": "print('another')\n"})
    words = runner_command(git.directory)
    done = subprocess.run(words, cwd=git.directory, capture_output=True, text=True, check=True)
    assert done.stdout == "another\n"
