"""A branch that several people move: one suite for both sides of it, the bare repository's and a clone's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from infra.cell.clone_tip import CloneTip
from infra.keep.repository.bare_tip import BareTip
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.git_environment import SAFE_SETTINGS
from infra.shared.repository.tip import ATTEMPTS, Tip, TipBusy, advance, edit_file, read_file
from tests.shared.repository.history import bare_repository, commit, contents, parents, plain


class Shared(NamedTuple):
    """A bare repository with one commit, and one side's view of its main."""

    bare: Git
    first: str
    tip: Tip

    def at(self) -> str:
        return plain(self.bare.directory, "rev-parse", "refs/heads/main").stdout.strip()

    def move(self, commit: str) -> None:
        """Somebody else moves main, wherever it is."""
        plain(self.bare.directory, "update-ref", "refs/heads/main", commit)

    def next(self, content: str, *parents: str) -> str:
        """A commit that this side could move main to."""
        return commit(self.tip.git, {"a": content}, *parents, branch="local")


# A lock that stays is found out at once, where git would wait for it.
IMPATIENT = {f"GIT_CONFIG_VALUE_{[key for key, _ in SAFE_SETTINGS].index('core.filesRefLockTimeout')}": "0"}


def a_clone(bare: Git, directory: Path) -> Git:
    plain(directory.parent, "clone", "--quiet", "--template=", bare.directory, str(directory))
    return Git(str(directory), AGENT, IMPATIENT)


@pytest.fixture(params=["bare", "clone"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Shared:
    bare = bare_repository(tmp_path / "remote.git")
    first = commit(bare, {"a": "1"})
    if request.param == "bare":
        return Shared(bare, first, BareTip(Git(bare.directory, AGENT, IMPATIENT)))
    return Shared(bare, first, CloneTip(a_clone(bare, tmp_path / "clone")))


def test_a_look_shows_where_it_is_now(shared: Shared) -> None:
    """Also after somebody else moved it; the commit is there to work with."""
    assert shared.tip.look() == shared.first
    second = commit(shared.bare, {"a": "2"}, shared.first)
    assert shared.tip.look() == second
    assert read_file(shared.tip.git, second, "a") == "2"
    shared.move(shared.first)
    assert shared.tip.look() == shared.first


@pytest.mark.parametrize("looked", [True, False])
def test_a_lost_race_is_false_and_moves_nothing(shared: Shared, looked: bool) -> None:
    """Somebody else was first, whether or not we know of it yet."""
    ours = shared.next("ours", shared.tip.look())
    theirs = commit(shared.bare, {"a": "theirs"}, shared.first)
    assert not looked or shared.tip.look() == theirs
    assert shared.tip.move(shared.first, ours) is False
    assert shared.at() == theirs


def test_a_tip_that_was_taken_back_is_a_lost_race(shared: Shared) -> None:
    """Our commit would fit on it, but it was built on another one."""
    second = commit(shared.bare, {"a": "2"}, shared.first)
    ours = shared.next("3", shared.tip.look())
    shared.move(shared.first)
    assert shared.tip.move(second, ours) is False
    assert shared.at() == shared.first


def test_a_move_that_somebody_made_already_is_made(shared: Shared) -> None:
    """Our own that went through although its answer was lost: it must not be done twice."""
    second = shared.next("2", shared.tip.look())
    assert shared.tip.move(shared.first, second) is True
    assert shared.tip.move(shared.first, second) is True


def test_a_branch_that_is_not_there_is_an_error(shared: Shared) -> None:
    """Nobody has made it, or somebody has deleted it."""
    assert shared.tip.look() == shared.first
    plain(shared.bare.directory, "update-ref", "-d", "refs/heads/main")
    with pytest.raises(GitError, match="main"):
        shared.tip.look()


@pytest.mark.parametrize("answer", [None, "seen"])
def test_an_advance_may_leave_it(shared: Shared, answer: str | None) -> None:
    """No commit, or the one that is there, changes nothing."""
    assert advance(shared.tip, lambda seen: seen if answer else None) == shared.first
    assert shared.at() == shared.first


def test_an_advance_that_loses_is_built_anew_on_the_winner(shared: Shared) -> None:
    """Both changes are there in the end."""
    seen_commits: list[str] = []

    def edit(seen: str) -> str | None:
        seen_commits.append(seen)
        if len(seen_commits) <= 2:
            commit(shared.bare, {"a": "1", str(len(seen_commits)): "theirs"}, seen)
        return edit_file(shared.tip.git, "a", lambda text: text + "+", "more")(seen)

    new = advance(shared.tip, edit)
    assert len(seen_commits) == 3
    assert contents(shared.bare, new) == {"a": "1+", "2": "theirs"}
    assert (shared.at(), parents(shared.bare, new)) == (new, seen_commits[2:])


class EverBusy:
    """A tip that somebody else moves before each of our moves."""

    def __init__(self) -> None:
        self.git = Git("/")
        self.moves = 0

    def look(self) -> str:
        return str(self.moves)

    def move(self, old: str, new: str) -> bool:
        self.moves += 1
        return False


def test_losing_for_ever_ends() -> None:
    """After so many attempts the caller is told, and may try later."""
    tip = EverBusy()
    with pytest.raises(TipBusy, match=f"{ATTEMPTS} attempts"):
        advance(tip, lambda seen: f"after {seen}")
    assert tip.moves == ATTEMPTS


def test_a_lock_that_somebody_left_is_an_error_that_names_it(tmp_path: Path) -> None:
    """In the repository itself, where it can be looked at and removed."""
    bare = bare_repository(tmp_path / "remote.git")
    first = commit(bare, {"a": "1"})
    second = commit(bare, {"a": "2"}, first, branch="local")
    tip = BareTip(Git(bare.directory, AGENT, IMPATIENT))
    lock = Path(f"{bare.directory}/refs/heads/main.lock")
    lock.touch()
    with pytest.raises(GitError, match=r"main\.lock': File exists"):
        tip.move(first, second)
    lock.unlink()
    assert tip.move(first, second)


def hooked(bare: Git, script: str) -> Path:
    """A door that declines once it has run this."""
    hook = Path(bare.directory) / "hooks/pre-receive"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\n{script}\nexit 1\n")
    hook.chmod(0o755)
    return hook


def test_a_door_that_declines_is_an_error_with_its_words(tmp_path: Path) -> None:
    """A refusal is never taken for a lost race, even if it uses the words of one."""
    bare = bare_repository(tmp_path / "remote.git")
    first = commit(bare, {"a": "1"})
    said = "no reports today\nfetch first\n! [rejected] (non-fast-forward)\ncannot lock ref"
    hook = hooked(bare, f"echo '{said}' >&2")
    tip = CloneTip(a_clone(bare, tmp_path / "clone"))
    asked: list[str] = []

    def edit(seen: str) -> str | None:
        asked.append(seen)
        return edit_file(tip.git, "a", lambda text: text + "+", "more")(seen)

    with pytest.raises(GitError, match="pre-receive hook declined") as declined:
        advance(tip, edit)
    assert all(f"remote: {words}" in declined.value.stderr for words in said.splitlines())
    assert asked == [first]
    hook.unlink()
    assert advance(tip, edit) == tip.look() != first


def test_a_declined_push_over_a_moved_tip_is_tried_on_the_new_one(tmp_path: Path) -> None:
    """The refusal may have been about what is no longer so."""
    bare = bare_repository(tmp_path / "remote.git")
    first = commit(bare, {"a": "1"})
    second = commit(bare, {"a": "1", "b": ""}, first, branch="other")
    hooked(bare, f"rm hooks/pre-receive; echo {second} > refs/heads/main")
    tip = CloneTip(a_clone(bare, tmp_path / "clone"))
    new = advance(tip, edit_file(tip.git, "a", lambda text: text + "+", "more"))
    assert contents(bare, new) == {"a": "1+", "b": ""}


def test_a_push_whose_answer_is_lost_is_not_repeated(tmp_path: Path) -> None:
    """The connection ends after the door has moved main: what was to be there is there."""
    bare = bare_repository(tmp_path / "remote.git")
    commit(bare, {"a": "1"})
    clone = a_clone(bare, tmp_path / "clone")
    plain(clone.directory, "config", "remote.origin.receivepack", "sh -c 'git-receive-pack \"$1\"; exit 1' --")
    new = advance(CloneTip(clone), edit_file(clone, "a", lambda text: text + "+", "more"))
    assert plain(clone.directory, "push", "origin", f"{new}:refs/heads/x").returncode != 0, (
        "the control: no answer lost"
    )
    assert plain(bare.directory, "rev-list", "--count", "main").stdout == "2\n"
    assert contents(bare, "main") == {"a": "1+"}


def test_a_look_leaves_no_other_trace(tmp_path: Path) -> None:
    """No FETCH_HEAD that would surprise the agent's own git, no tags, no other branch."""
    bare = bare_repository(tmp_path / "remote.git")
    first = commit(bare, {"a": "1"})
    clone = a_clone(bare, tmp_path / "clone")
    second = commit(bare, {"a": "2"}, first)
    commit(bare, {"a": "3"}, second, branch="other")
    plain(bare.directory, "tag", "v1", second)
    assert CloneTip(clone).look() == second
    refs = plain(clone.directory, "for-each-ref", "--format=%(refname)").stdout.split()
    assert refs == ["refs/heads/main", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]
    assert not os.path.exists(f"{clone.directory}/.git/FETCH_HEAD")
