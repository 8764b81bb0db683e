"""What is another version: the id that failures, pins and known-good versions are recorded by."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from infra.keep.supervision.versions import version_of
from infra.shared.places import BODY
from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.git import Git
from tests.cell.runner.cell import PM

FILES = {
    "infra/__init__.py": "",
    "infra/runner.py": "print('the runner')\n",
    "infra/shared/__init__.py": "",
    "infra/keep/__init__.py": "",
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
        {"infra/keep/__init__.py": "# the runner may import it"},
        {"infra/Runner.py": ""},
    ],
)
def test_whatever_the_runner_could_import_from_infra_is_another_version(git: Git, files: dict[str, str]) -> None:
    """Else a bad main would be pinned with the good one, and a running agent would never make way for it."""
    before = git("rev-parse", "HEAD")
    after = commit(git, files)
    one, other = version_of(git, before), version_of(git, after)
    assert one.id != other.id
    assert one.body != other.body
    assert changes_beyond_page(git, before, after, *BODY)


def test_python_runs_a_package_in_the_place_of_the_runner(git: Git) -> None:
    """Why the name of a file does not say what runs."""
    commit(git, {"infra/runner/__init__.py": "", "infra/runner/__main__.py": "print('another')\n"})
    words = [sys.executable, "-E", "-s", "-m", "infra.runner"]
    done = subprocess.run(words, cwd=git.directory, capture_output=True, text=True, check=True)
    assert done.stdout == "another\n"


def test_an_id_is_what_earlier_watchers_recorded(git: Git) -> None:
    """Their pins and known-good versions hold for the next watcher."""
    listed = git.raw("ls-tree", "-z", "HEAD", "infra", "requirements.lock", "requirements.txt", "SYSTEM.md")
    assert version_of(git, "HEAD").id == hashlib.sha256(listed).hexdigest()[:16]
