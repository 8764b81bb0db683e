"""Which clones of branches are removed at the start of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.cell.merged_clones import QUIET_SECONDS, remove_merged
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


def stays(cell: Cell, git: Git, quiet_seconds: float = QUIET_SECONDS + 60) -> bool:
    """After a run began, so long after the clone was touched."""
    at = time.time() - quiet_seconds
    for path in filter(os.path.exists, (git.directory, f"{git.directory}/.git")):
        os.utime(path, (at, at))
    context = cell.context()
    remove_merged(context, context.page.look().commit)
    return os.path.exists(git.directory)


def test_a_merged_clone_goes(cell: Cell) -> None:
    """With the directories that held it alone; ignored files, and a tag that was pushed, are no work."""
    git = merged(cell)
    Path(git.directory, "x.pyc").write_text("")
    _a_tag_of_its_own(git)
    git("push", "--quiet", "origin", "mine")
    assert not stays(cell, git)
    assert not os.path.exists(f"{cell.places.bot}/idea")


def _unmerged(git: Git) -> None:
    git("commit", "--quiet", "--allow-empty", "--message", "more")
    git("push", "--quiet", "origin", "HEAD")


def _a_commit_aside(git: Git) -> None:
    git("branch", "aside", git("commit-tree", "-m", "aside", "HEAD^{tree}"))


def _a_tag_of_its_own(git: Git) -> None:
    git("tag", "mine", git("commit-tree", "-m", "aside", "HEAD^{tree}"))


def _a_change(git: Git) -> None:
    Path(git.directory, "src/new.py").write_text("2\n")


def _a_new_file(git: Git) -> None:
    Path(git.directory, "src/newer.py").write_text("2\n")


def _a_stash(git: Git) -> None:
    _a_change(git)
    git("stash", "--quiet")


def _a_hidden_change(git: Git) -> None:
    git("update-index", "--assume-unchanged", "src/new.py")
    _a_change(git)


def _another_work_tree(git: Git) -> None:
    git("worktree", "add", "--quiet", "--detach", f"{git.directory}-beside")


def _no_clone(git: Git) -> None:
    os.rename(f"{git.directory}/.git", f"{git.directory}/git")


@pytest.mark.parametrize(
    "work",
    [
        _unmerged,
        _a_commit_aside,
        _a_tag_of_its_own,
        _a_change,
        _a_new_file,
        _a_stash,
        _a_hidden_change,
        _another_work_tree,
        _no_clone,
    ],
)
def test_one_with_work_of_its_own_stays(cell: Cell, work: Callable[[Git], None]) -> None:
    """Whatever main has of it besides."""
    git = merged(cell)
    work(git)
    assert stays(cell, git)


def test_a_fresh_one_and_our_own_stay(cell: Cell) -> None:
    """One that was just made may be in work."""
    git = merged(cell)
    assert stays(cell, git, quiet_seconds=60)
    assert stays(cell, Git(cell.checkout))
