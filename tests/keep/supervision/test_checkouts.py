"""Main's clone, brought to the shared main from every state an agent may leave it in: nothing is ever lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.keep.git_door.setup import write_door_files
from infra.keep.settings_file import parse_settings
from infra.keep.supervision import checkouts, rescue
from infra.keep.supervision.checkouts import Ready
from infra.shared.repository.git import Git, GitError
from tests.cell.runner.doors import GitDoor
from tests.keep.supervision.agents import Agent

MakeAgent = Callable[..., Agent]
WALL = 1_700_000_000.0


class Main:
    """Main's clone of an agent that has no watcher."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        write_door_files(agent.places, parse_settings(""))
        self.bring()
        self.path = Path(agent.places.main_checkout)
        self.git = checkouts.Cell(agent.places, agent.places.remote).git(str(self.path))

    def bring(self, wall: float = WALL) -> Ready:
        return checkouts.ready(checkouts.Cell(self.agent.places, self.agent.places.remote), "main", wall)

    def write(self, **files: str) -> None:
        for name, content in files.items():
            (self.path / name).write_text(content)

    def is_right(self) -> bool:
        status = rescue.status(self.git)
        return status == rescue.Status(self.agent.git("ls-remote", "origin", "main").split()[0], "main", False)

    def kept(self, content: str) -> bool:
        """It is in a commit of a pushed rescue branch, or in a file of a clone that was set aside."""
        bare = Git(self.agent.places.remote)
        refs = bare("for-each-ref", "--format=%(refname)", "refs/heads/rescue").split()
        listed = bare("rev-list", "--objects", "--no-object-names", *refs).split() if refs else []
        blobs = [name for name in listed if bare("cat-file", "-t", name) == "blob"]
        if any(bare("cat-file", "blob", name) == content for name in blobs):
            return True
        aside = [path for top in self.path.parent.glob("minifram.aside-*") for path in top.rglob("*")]
        return any(path.is_file() and path.read_bytes() == content.encode() for path in aside)


@pytest.fixture
def main(make_agent: MakeAgent) -> Iterator[Main]:
    made = Main(make_agent())
    with contextlib.closing(GitDoor(made.agent.places)):
        yield made


def new_main(main: Main, **files: str) -> None:
    """The PM pushes another main."""
    main.agent.git("pull", "-q", "--ff-only", "origin", "main")
    for name, content in files.items():
        (main.agent.clone / name).write_text(content)
    main.agent.commit("serve() # newer")
    main.agent.git("push", "-q", "origin", "main")


def untracked(main: Main) -> None:
    main.write(thought="THE WORK")


def untracked_and_hidden_by_configuration(main: Main) -> None:
    main.write(thought="THE WORK")
    main.git("config", "status.showUntrackedFiles", "no")


def staged_then_removed(main: Main) -> None:
    main.write(thought="THE WORK")
    main.git("add", "thought")
    (main.path / "thought").unlink()


def staged_then_changed(main: Main) -> None:
    main.write(thought="THE WORK")
    main.git("add", "thought")
    main.write(thought="something else")


def ignored_but_added_by_force(main: Main) -> None:
    (main.path / "__pycache__").mkdir()
    (main.path / "__pycache__/x").write_text("before")
    main.git("add", "--force", "__pycache__/x")
    (main.path / "__pycache__/x").write_text("THE WORK")


def ignored_by_a_rule_that_is_not_committed(main: Main) -> None:
    main.write(**{".gitignore": "logs/\n__pycache__/\nsecret\n", "secret": "THE WORK"})


def ignored_where_main_has_a_file(main: Main) -> None:
    (main.path / ".git/info/exclude").write_text("coming\n")
    main.write(coming="THE WORK")


def ignored_directory_where_main_has_a_file(main: Main) -> None:
    (main.path / ".git/info/exclude").write_text("coming\n")
    (main.path / "coming").mkdir()
    (main.path / "coming/inside").write_text("THE WORK")


def assumed_unchanged(main: Main) -> None:
    main.git("update-index", "--assume-unchanged", "behaviour")
    main.write(behaviour="THE WORK")


def skipped_by_the_work_tree(main: Main) -> None:
    main.git("update-index", "--skip-worktree", "behaviour")
    main.write(behaviour="THE WORK")


def in_a_repository_inside(main: Main) -> None:
    inner = main.path / "inner"
    subprocess.run(["git", "init", "-q", inner], check=True)
    (inner / "thought").write_text("THE WORK")


def in_a_repository_with_commits_inside(main: Main) -> None:
    in_a_repository_inside(main)
    inner = Git(str(main.path / "inner")).with_env(
        GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b"
    )
    inner("commit", "--quiet", "--allow-empty", "-m", "inner")


def committed_on_main(main: Main) -> None:
    main.write(thought="THE WORK")
    main.git("add", "--all")
    main.git("commit", "--quiet", "-m", "mine")


def committed_on_another_branch(main: Main) -> None:
    main.git("checkout", "--quiet", "-b", "idea")
    committed_on_main(main)
    main.git("checkout", "--quiet", "main")


def committed_on_no_branch(main: Main) -> None:
    main.git("checkout", "--quiet", "--detach")
    committed_on_main(main)


def in_the_middle_of_a_merge(main: Main) -> None:
    main.git("checkout", "--quiet", "-b", "idea")
    main.write(behaviour="one")
    main.git("commit", "--quiet", "-a", "-m", "one")
    main.git("checkout", "--quiet", "main")
    main.write(behaviour="two")
    main.git("commit", "--quiet", "-a", "-m", "two")
    with pytest.raises(GitError):
        main.git("merge", "idea")
    main.write(behaviour="THE WORK")


def in_the_middle_of_a_rebase(main: Main) -> None:
    in_the_middle_of_a_merge(main)
    main.git("merge", "--abort")
    with pytest.raises(GitError):
        main.git("rebase", "idea")
    main.write(behaviour="THE WORK")


def with_a_damaged_index(main: Main) -> None:
    main.write(thought="THE WORK")
    (main.path / ".git/index").write_bytes(b"garbage")


def with_another_origin(main: Main) -> None:
    main.write(thought="THE WORK")
    main.git("remote", "set-url", "origin", "/nonexistent")


def with_a_file_of_git_that_is_a_directory(main: Main) -> None:
    main.write(thought="THE WORK")
    (main.path / ".git/index.lock").mkdir()


def with_a_strange_renamed_name(main: Main) -> None:
    main.write(**{"#": "a long enough text to be a rename\n" * 20, "# x": "y"})
    main.git("config", "status.renames", "copies")
    main.git("add", "--all")
    main.git("commit", "--quiet", "-m", "strange")
    main.git("mv", "# x", "thought")
    main.write(thought="THE WORK")


STATES = [
    untracked,
    untracked_and_hidden_by_configuration,
    staged_then_removed,
    staged_then_changed,
    ignored_but_added_by_force,
    ignored_by_a_rule_that_is_not_committed,
    ignored_where_main_has_a_file,
    ignored_directory_where_main_has_a_file,
    assumed_unchanged,
    skipped_by_the_work_tree,
    in_a_repository_inside,
    in_a_repository_with_commits_inside,
    committed_on_main,
    committed_on_another_branch,
    committed_on_no_branch,
    in_the_middle_of_a_merge,
    in_the_middle_of_a_rebase,
    with_a_damaged_index,
    with_another_origin,
    with_a_file_of_git_that_is_a_directory,
    with_a_strange_renamed_name,
]


def test_a_file_that_main_has_no_more_is_no_work(main: Main) -> None:
    """A main that lost a file leaves nothing of it in the clone, and nothing is rescued."""
    new_main(main, gone="of main\n")
    main.bring()
    main.agent.git("rm", "-q", "gone")
    main.agent.git("commit", "-q", "-m", "without it")
    main.agent.git("push", "-q", "origin", "main")

    assert main.bring() == Ready(main.agent.git("rev-parse", "HEAD"), "")
    assert not (main.path / "gone").exists()
    assert main.is_right()


@pytest.mark.parametrize("leave", STATES, ids=lambda leave: leave.__name__)
def test_nothing_that_a_clone_holds_is_lost(main: Main, leave: Callable[[Main], None]) -> None:
    """Whatever state main's clone is left in: it is brought to a newer main, and the work is kept and told of."""
    leave(main)
    new_main(main, coming="main's own")
    ready = main.bring()
    assert main.is_right()
    assert ready.commit == main.git("rev-parse", "HEAD")
    assert main.kept("THE WORK")
    assert ready.rescued
    again = main.bring(WALL + 1)
    assert again == Ready(ready.commit), "what was saved once is not saved at each launch"


def test_what_was_saved_is_named(main: Main) -> None:
    """Files that were not committed, and commits that were not pushed: the PM need not look for them."""
    main.write(half="done")
    main.write(behaviour="changed")
    main.agent.git("fetch", "-q")
    main.git("add", "behaviour")
    main.git("commit", "-q", "-m", "a commit of its own")
    for number in range(7):
        main.write(**{f"file{number}": "x"})
    new_main(main)

    said = main.bring().rescued

    assert "8 files that were not committed: file0, file1, file2, file3, file4 and 3 more" in said
    assert "1 commit that was not pushed: " in said
    assert "a commit of its own" in said


def test_a_clean_clone_is_left_alone_and_what_is_ignored_stays(main: Main) -> None:
    """The control: without work there is nothing to save, and ignored files and stashes survive a new main."""
    (main.path / "logs").mkdir(exist_ok=True)
    main.write(behaviour="stashed")
    main.git("stash")
    (main.path / "logs/errors.log").write_text("words")
    new_main(main)
    assert main.bring().rescued == ""
    assert main.is_right()
    assert (main.path / "logs/errors.log").read_text() == "words"
    assert main.git("show", "stash@{0}:behaviour") == "stashed"


def test_two_rescues_at_the_same_moment_lose_nothing(main: Main) -> None:
    """A name that is taken already is no reason to lose anything."""
    for content in ("the first", "the second", "the third"):
        main.write(thought=content)
        main.bring(WALL)
        assert main.is_right()
    assert all(main.kept(content) for content in ("the first", "the second", "the third"))


@pytest.mark.parametrize("kind", ["link", "file", "link above", "file above", "git is a link", "git is a file"])
def test_what_is_no_clone_is_set_aside(main: Main, kind: str) -> None:
    """A link or a file where main's clone belongs is moved away; what a link leads to is not touched."""
    other = Path(main.agent.places.bot, "other")
    subprocess.run(["git", "clone", "-q", main.agent.places.remote, other], check=True)
    (other / "thought").write_text("not main's")
    above, dot_git = main.path.parent, main.path / ".git"
    victim = {"link": main.path, "file": main.path, "link above": above, "file above": above}.get(kind, dot_git)
    os.rename(victim, f"{victim}.was")
    if "file" in kind:
        victim.write_text("gitdir: ../../other/.git\n")
    else:
        victim.symlink_to(other / ".git" if victim == dot_git else other)
    main.bring()
    assert main.is_right()
    assert not main.path.is_symlink()
    assert (other / "thought").read_text() == "not main's"


@pytest.mark.parametrize("kind", ["directory", "link", "none"])
def test_the_logs_stay_with_main_when_its_clone_is_set_aside(main: Main, kind: str) -> None:
    """Runs go on there and the PM reads there; a link is left where it is."""
    logs, elsewhere = main.path / "logs", Path(main.agent.places.bot, "elsewhere")
    shutil.rmtree(logs, ignore_errors=True)
    elsewhere.mkdir()
    if kind == "link":
        logs.symlink_to(elsewhere)
    elif kind != "none":
        logs.mkdir()
        (logs / "errors.log").write_text("words")
    main.git("config", "alias.st", "!true")

    assert "minifram.aside-" in main.bring().rescued

    assert not logs.is_symlink()
    assert (logs / "errors.log").exists() is (kind == "directory")
    [aside] = main.path.parent.glob("minifram.aside-*")
    assert (aside / "logs").is_symlink() is (kind == "link")
    assert main.bring(WALL + 1).rescued == ""


@pytest.mark.parametrize("logs_were_moved", [False, True])
def test_a_watcher_that_is_killed_while_it_sets_aside_loses_no_logs(main: Main, logs_were_moved: bool) -> None:
    """Fault: it renamed the old clone, and perhaps the logs; expected: the next launch brings them and tells of it."""
    (main.path / "logs").mkdir(exist_ok=True)
    (main.path / "logs/errors.log").write_text("words")
    main.write(thought="THE WORK")
    aside = main.path.rename(f"{main.path}.aside-20260131T104212345Z")
    if logs_were_moved:
        half = main.path.with_name("minifram.aside-half-01234567")
        subprocess.run(["git", "clone", "-q", main.agent.places.remote, half], check=True)
        (aside / "logs").rename(half / "logs")

    assert f"in {aside}," in main.bring().rescued

    assert (main.path / "logs/errors.log").read_text() == "words"
    assert main.kept("THE WORK")
    assert main.bring(WALL + 1).rescued == ""


def test_another_work_tree_in_its_configuration_is_not_touched(main: Main) -> None:
    """`core.worktree` must not lead the reset of main's clone to other people's files."""
    other = Path(main.agent.places.bot, "other")
    other.mkdir()
    (other / "thought").write_text("not main's")
    (main.path / "behaviour").write_text("THE WORK")
    main.git("config", "core.worktree", str(other))
    main.bring()
    assert (other / "thought").read_text() == "not main's"
    assert main.kept("THE WORK")


def test_a_clone_is_set_aside_only_for_a_better_one(main: Main) -> None:
    """When no new clone can be made, the old one stays where it is."""
    main.write(thought="THE WORK")
    main.git("remote", "set-url", "origin", "/nonexistent")
    places = main.agent.places
    with pytest.raises(checkouts.CheckoutError):
        checkouts.ready(checkouts.Cell(places, "/nonexistent"), "main", WALL)
    assert (main.path / "thought").read_text() == "THE WORK"
    assert [path.name for path in main.path.parent.iterdir()] == ["minifram"]
