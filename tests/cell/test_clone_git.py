"""The runner's git in a clone in which earlier work has named programs, with real git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import git as gitpython
import pytest

from infra.cell.clone_git import NO_DRIVERS, CloneGit, disarm, harmless, outside
from infra.cell.clone_tip import CloneTip
from infra.cell.tools import hop
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.git_environment import safe_environment
from tests.cell.mind.one_mind import OneMind

NOW = 1_769_856_132.0
PLANTED = """
[core]
	fsmonitor = {program}
	hooksPath = {root}/hooks
	worktree = {root}/elsewhere
	pager = {program}
	attributesFile = {root}/attributes
[filter "evil"]
	clean = {program}
	smudge = {program}
	required = true
[merge "evil"]
	driver = {program}
[diff "evil"]
	textconv = {program}
	command = {program}
[remote "origin"]
	uploadpack = {program}
	receivepack = {program}
[url "{root}/evil.git"]
	insteadOf = {remote}
[include]
	path = {root}/more
[alias]
	status = !{program}
"""


@pytest.fixture
def planted(tmp_path: Path) -> OneMind:
    """All that git would start a program by, in the clone's own settings, attributes and hooks, and in the cell's."""
    mind = OneMind(str(tmp_path / "m"), NOW)
    inside, program = Path(mind.root, ".git"), tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    program.chmod(0o755)
    settings = PLANTED.format(program=program, root=tmp_path, remote=mind.places.remote)
    (tmp_path / "more").write_text(f'[filter "more"]\n\tclean = {program}\n')
    for path in (inside / "config", Path(mind.places.cell_git_config)):
        with path.open("a") as file:
            file.write(settings)
    (inside / "info").mkdir(exist_ok=True)
    for attributes in (inside / "info/attributes", Path(mind.root, ".gitattributes"), tmp_path / "attributes"):
        attributes.write_text("* filter=evil merge=evil diff=evil\n*.md filter=more\n")
    for hooks in (inside / "hooks", tmp_path / "hooks"):
        hooks.mkdir(exist_ok=True)
        for name in ("post-index-change", "post-checkout", "pre-push", "reference-transaction", "fsmonitor-watchman"):
            (hooks / name).write_text(program.read_text())
            (hooks / name).chmod(0o755)
    os.makedirs(tmp_path / "elsewhere")
    return mind


def _works(git: Git) -> None:
    """What the runner does in a clone, by the porcelain that git has for it."""
    Path(git.directory, "a.md").write_text("one\n")
    git("status", "--porcelain")
    git("add", "--all")
    git("diff", "HEAD")
    commit = git("commit-tree", git("write-tree"), "-p", "HEAD", "-m", "x")
    tip = CloneTip(git, "mind")
    assert tip.move(tip.look(), commit)
    git("merge", "--quiet", "--ff-only", commit)
    Path(git.directory, "a.md").unlink()
    git("checkout-index", "--quiet", "--all", "--force")
    git("read-tree", "-m", "-u", "HEAD~", commit)


@pytest.mark.attack("S64")
def test_the_runners_git_starts_no_program_that_a_clone_names(planted: OneMind, tmp_path: Path) -> None:
    _works(planted.git)
    assert planted.bare("show", "mind:a.md") == "one"
    assert outside(planted.places, planted.places.remote)("ls-remote", planted.places.remote)
    assert not (tmp_path / "started").exists()


def test_what_is_planted_would_start_it(planted: OneMind, tmp_path: Path) -> None:
    """By the guarded git that does not look at the clone first."""
    with pytest.raises((GitError, AssertionError)):
        _works(Git(planted.root, AGENT))
    assert (tmp_path / "started").exists()


@pytest.mark.attack("S64")
def test_a_repository_inside_starts_no_program_either(tmp_path: Path) -> None:
    """It is in the index, with a filter in its own settings; what it holds changes before each call."""
    mind = OneMind(str(tmp_path / "m"), NOW)
    git, at = mind.git, f"{mind.root}/inner"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\ncat\n")
    program.chmod(0o755)
    mind.write("inner/.gitattributes", "* filter=evil\n")
    mind.write("inner/a", "a")
    inner = Git(at, AGENT)
    inner("init", "--quiet")
    inner("add", "--all")
    inner("commit", "--quiet", "--message", "one")
    git("add", "inner")
    inner("config", "filter.evil.clean", str(program))
    commit = git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "x")

    def with_gitpython() -> object:
        with gitpython.Repo(mind.root) as repo:
            repo.git.update_environment(**safe_environment())
            return hop.uncommitted(repo)

    calls: list[Callable[[], object]] = [
        lambda: git("status", "--porcelain"),
        lambda: git("diff", "--name-only", "HEAD"),
        with_gitpython,
        lambda: git("merge", "--quiet", "--ff-only", commit),
    ]
    for number, call in enumerate(calls):
        mind.write("inner/a", str(number))  # of another size, it would have changed without a look at it
        call()
        assert not (tmp_path / "started").exists(), number
    git("add", "inner")
    mind.write("inner/a", "b")
    Git(mind.root, AGENT)("status")
    assert (tmp_path / "started").exists()


@pytest.mark.attack("S64")
def test_a_clone_that_leads_elsewhere_is_not_used(tmp_path: Path) -> None:
    mind = OneMind(str(tmp_path / "m"), NOW)
    inside = Path(mind.root, ".git")
    (inside / "commondir").write_text(f"{tmp_path}/other\n")
    assert mind.git("rev-parse", "--git-common-dir") == str(inside)
    inside.rename(tmp_path / "aside")
    inside.write_text(f"gitdir: {tmp_path}/aside\n")
    with pytest.raises(GitError, match="is no directory"):
        mind.git("status")


def test_a_fresh_clone_keeps_its_settings(tmp_path: Path) -> None:
    """In git's own form, with the branches that it follows; written once, and not again."""
    mind = OneMind(str(tmp_path / "m"), NOW)
    subprocess.run(["git", "clone", "--quiet", mind.places.remote, tmp_path / "c"], check=True, env=_plain())
    before = (tmp_path / "c/.git/config").read_text()
    git = CloneGit(str(tmp_path / "c"), mind.places, mind.places.remote)
    git("config", "branch.x.merge", "refs/heads/x")
    git("config", "alias.y", "!true")
    assert git("status", "--porcelain") == ""
    after = (tmp_path / "c/.git/config").read_text()
    assert sorted(after.split()) == sorted([*before.split(), "[branch", '"x"]', *["merge", "=", "refs/heads/x"]])
    stamp = os.stat(tmp_path / "c/.git/config").st_mtime_ns
    git("status")
    assert os.stat(tmp_path / "c/.git/config").st_mtime_ns == stamp
    assert (tmp_path / "c/.git/info/attributes").read_text() == NO_DRIVERS
    assert harmless(after, "") == after
    disarm(str(tmp_path / "nothing"))


def _plain() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
