"""A rollback that the agent asks for goes to what has led main, or to what was examined, and nowhere else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from infra.keep.examination import returning
from infra.keep.supervision.main_branch import roll_back
from infra.keep.verdicts import records, steps, trees
from infra.keep.verdicts.verdict import Verdict
from infra.shared.control import KNOWN_GOOD
from infra.shared.paths import Paths
from infra.shared.people import AGENT, Person
from infra.shared.repository.git import Git

PM = Person("PM", "pm@example.invalid")


class Scene:
    def __init__(self, root: Path) -> None:
        self.places = Paths(f"{root}/bot", f"{root}/r.git", f"{root}/run", f"{root}/var")
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.places.remote], check=True)
        subprocess.run(["git", "init", "-q", "-b", "main", f"{root}/pm"], check=True)
        self.root = root / "pm"
        self.git = Git(str(self.root), PM)
        self.git("remote", "add", "origin", self.places.remote)

    def commit(self, branch: str, text: str, path: str = "infra/a.py") -> str:
        self.git("checkout", "-q", "-B", branch)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", text)
        self.git("push", "-q", "origin", branch)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_branch_that_nobody_examined_is_nothing_to_return_to(scene: Scene) -> None:
    """It would be a way onto main past the git door; with a verdict it is none."""
    scene.commit("main", "one")
    evil = scene.commit("evil", "evil")
    with pytest.raises(PermissionError, match=r"'infra/a\.py', and .*did not see it lead main"):
        roll_back(scene.places, evil, "merge", "1:1")

    git = Git(scene.places.remote, PM)
    key = trees.key_of(git, evil)
    records.keep(git, Verdict(key, "evil", evil, "", passed=True))
    moved = roll_back(scene.places, evil, "merge", "1:2")
    assert git("rev-parse", "main") == moved


def test_what_has_led_main_may_lead_again(scene: Scene) -> None:
    """Since the keep examines: what an earlier keep let in proves nothing, unless it is a known good version."""
    before = scene.commit("main", "before")
    first = scene.commit("main", "first")
    returning.begin(scene.places.remote)
    second = scene.commit("main", "second")
    returning.begin(scene.places.remote)

    roll_back(scene.places, first, "merge", "1:1")
    roll_back(scene.places, second, "merge", "1:2")
    with pytest.raises(PermissionError):
        roll_back(scene.places, before, "merge", "1:3")
    Git(scene.places.remote)("update-ref", f"{KNOWN_GOOD}/0123", before)
    roll_back(scene.places, before, "merge", "1:4")


def test_where_the_pm_let_main_follow_a_branch_only_its_end_was_looked_at(scene: Scene) -> None:
    """`git merge BRANCH` without a merge commit puts all commits of the agent's onto main's line."""
    scene.commit("main", "one")
    returning.begin(scene.places.remote)
    scene.git = Git(str(scene.root), AGENT)
    evil = scene.commit("main", "evil")
    more = scene.commit("main", "x", "src/x.py")
    scene.commit("main", "one")
    for target in (evil, more):
        with pytest.raises(PermissionError, match="did not see it lead main"):
            roll_back(scene.places, target, "merge", target)

    git = Git(scene.places.remote, PM)
    key = trees.key_of(git, evil)
    records.keep(git, Verdict(key, "evil", evil, "", passed=True))
    assert roll_back(scene.places, more, "merge", "1:1")


def test_an_older_line_of_main_is_not_lengthened(scene: Scene) -> None:
    """The agent chooses a push's first parent: one from before the keep examined leads to nothing from then."""
    before = scene.commit("main", "before")
    after = scene.commit("main", "after")
    returning.begin(scene.places.remote)
    git = Git(scene.places.remote, AGENT)
    made = git("commit-tree", f"{after}^{{tree}}", "-p", before, "-p", after, "-m", "x")
    git("update-ref", "refs/heads/main", made)
    with pytest.raises(PermissionError, match="did not see it lead main"):
        roll_back(scene.places, before, "merge", "1:1")


def test_main_as_it_was_may_be_gone(scene: Scene) -> None:
    """The PM can rewrite main; then a verdict from before says nothing of it."""
    first, second = scene.commit("main", "one"), scene.commit("main", "x", "src/x.py")
    git = Git(scene.places.remote, PM)
    assert steps.are_alike(git, first, second)
    assert not steps.are_alike(git, first, scene.commit("main", "two"))
    assert not steps.are_alike(git, "0" * 39 + "1", second)


def test_what_changes_nothing_of_the_agent_needs_none(scene: Scene) -> None:
    """src/ is free, as in a push."""
    scene.commit("main", "one")
    other = scene.commit("other", "x", "src/x.py")
    assert roll_back(scene.places, other, "merge", "1:1")
