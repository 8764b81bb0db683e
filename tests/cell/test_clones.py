"""Which clones of branches are removed at the start of a run."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from infra.cell.clones import QUIET_SECONDS, remove_merged
from infra.shared.people import AGENT
from infra.shared.repository.git import Git
from tests.cell.cell import Cell


def merged(cell: Cell) -> Git:
    """A clone of a branch with a commit, which the PM has merged."""
    branch = "idea/one"
    path = cell.places.checkout(branch)
    Git("/")("clone", "--quiet", cell.places.remote, path)
    git = Git(path, AGENT)
    git("checkout", "--quiet", "-b", branch)
    Path(path, "src/new.py").write_text("1\n")
    git("add", "--all")
    git("commit", "--quiet", "--message", "work")
    git("push", "--quiet", "origin", branch)
    cell.pm("fetch", "--quiet", "origin")
    cell.pm("merge", "--quiet", "--no-ff", "--message", "taken", f"origin/{branch}")
    cell.pm("push", "--quiet", "origin", "HEAD:main")
    return git


def do(git: Git, words: str) -> None:
    people = {f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["sh", "-c", words], cwd=git.directory, env=os.environ | people, check=True)


def stays(cell: Cell, git: Git, quiet_seconds: float = QUIET_SECONDS + 60) -> bool:
    """After a run began, so long after the clone was touched."""
    at = time.time() - quiet_seconds
    for path in filter(os.path.exists, (git.directory, f"{git.directory}/.git")):
        os.utime(path, (at, at))
    context = cell.context()
    remove_merged(context, context.page.look().commit)
    return os.path.exists(git.directory)


def test_a_merged_clone_goes(cell: Cell) -> None:
    """Ignored files, and what origin has of another branch, are no work."""
    git = merged(cell)
    Path(git.directory, "x.pyc").write_text("")
    do(git, "git push -q origin $(git commit-tree -m aside HEAD^{tree}):refs/heads/aside && git fetch -q")
    do(git, "git branch aside origin/aside -q")
    assert not stays(cell, git)


WORK = {
    "a commit": "git commit -q --allow-empty -m more && git push -q origin HEAD",
    "a commit aside": "git branch aside $(git commit-tree -m aside HEAD^{tree})",
    "a tag of its own": "git tag mine $(git commit-tree -m aside HEAD^{tree})",
    "a change": "echo 2 > src/new.py",
    "a new file": "echo 2 > src/newer.py",
    "a stash": "echo 2 > src/new.py && git stash -q",
    "another work tree": "git worktree add -q --detach ../beside",
    "no clone": "mv .git git",
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_one_with_work_of_its_own_stays(cell: Cell, work: str) -> None:
    """Whatever main has of it besides."""
    git = merged(cell)
    do(git, work)
    assert stays(cell, git)


def test_a_fresh_one_and_our_own_stay(cell: Cell) -> None:
    """One that was just made may be in work."""
    git = merged(cell)
    assert stays(cell, git, quiet_seconds=60)
    assert stays(cell, Git(cell.checkout))
