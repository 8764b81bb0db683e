"""Merging without a work tree: both sides' changes, main's page, conflicts by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.merge import MergeConflict, merge_commit
from tests.shared.repository.history import (
    EXECUTABLE,
    FILE,
    GITLINK,
    LINK,
    Content,
    bare_repository,
    commit,
    contents,
    listing,
    parents,
    plain,
)


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return bare_repository(tmp_path / "r")


def merged(git: Git, seen: str, branch: str) -> str:
    new = merge_commit(git, seen, branch, "merge it")
    assert new
    assert parents(git, new) == [seen, branch]
    assert git("log", "-1", "--format=%s", new) == "merge it"
    return new


def test_a_branch_ahead_of_main_is_a_merge_all_the_same(git: Git) -> None:
    """It could be fast-forwarded, but then its page would be main's; one merge commit, both parents."""
    base = commit(git, {"COMMS.md": "0", "a": "1"})
    branch = commit(git, {"COMMS.md": "mine", "a": "2"}, base, branch="b")
    assert contents(git, merged(git, base, branch)) == {"COMMS.md": "0", "a": "2"}


def test_what_both_sides_changed_is_there(git: Git) -> None:
    """Different files, and different places of one file."""
    text = "".join(f"{number}\n" for number in range(20))
    base = commit(git, {"COMMS.md": "0", "a": text, "b": "1", "gone": "x"})
    branch = commit(git, {"COMMS.md": "0", "a": text.replace("1\n2", "one\n2"), "b": "1", "new": "n"}, base, branch="b")
    seen = commit(git, {"COMMS.md": "5", "a": text + "end\n", "b": "2", "gone": "x"}, base)
    assert contents(git, merged(git, seen, branch)) == {
        "COMMS.md": "5",
        "a": text.replace("1\n2", "one\n2") + "end\n",
        "b": "2",
        "new": "n",
    }


@pytest.mark.parametrize("at", ["itself", "an ancestor", "merged"])
def test_what_is_in_already_is_not_merged_again(git: Git, at: str) -> None:
    """None, not an empty commit."""
    base = commit(git, {"a": "1"})
    branch = commit(git, {"a": "2"}, base, branch="b")
    seen = commit(git, {"a": "1", "c": "3"}, base)
    new = merged(git, seen, branch)
    known = {"itself": new, "an ancestor": base, "merged": branch}[at]
    assert merge_commit(git, new, known, "m") is None
    assert merge_commit(git, seen, branch, "m") is not None


def test_a_conflict_names_the_files_and_makes_nothing(git: Git) -> None:
    """Each once, whatever their names, in words that say what to do."""
    odd = 'new\nline "quoted" é'
    base = commit(git, {"COMMS.md": "0", "a": "1", "b": "1", "c": "1", "kept": "1"})
    branch = commit(
        git, {"COMMS.md": "1", "a": "2", "b": "1", "c": "2", "kept": "1", odd_safe(odd): "2"}, base, branch="b"
    )
    seen = commit(git, {"COMMS.md": "2", "a": "3", "b": "2", "kept": "1", odd_safe(odd): "3"}, base)
    with pytest.raises(MergeConflict, match="merge main into the branch and push it, then try again") as conflict:
        merge_commit(git, seen, branch, "m")
    assert sorted(conflict.value.files) == sorted(["a", "c", odd_safe(odd)])
    assert all(name in str(conflict.value) for name in ("a", "c"))
    assert plain(git.directory, "rev-parse", "main").stdout.strip() == seen


def odd_safe(name: str) -> str:
    """fast-import takes a name to the end of its line, so the odd one has no newline."""
    return name.replace("\n", "\t")


@pytest.mark.parametrize(
    ("main", "branch", "expected"),
    [
        ({"COMMS.md": "main"}, {"COMMS.md": "branch"}, {"COMMS.md": (FILE, "main")}),
        ({"COMMS.md": "main"}, {}, {"COMMS.md": (FILE, "main")}),
        ({"COMMS.md": "base"}, {"COMMS.md": "branch"}, {"COMMS.md": (FILE, "base")}),
        ({"COMMS.md": "base"}, {}, {"COMMS.md": (FILE, "base")}),
        ({}, {"COMMS.md": "branch"}, {}),
        ({}, {"COMMS.md": "base"}, {}),
        ({"COMMS.md": "main"}, {"COMMS.md": (LINK, "a")}, {"COMMS.md": (FILE, "main")}),
        ({"COMMS.md": "base"}, {"COMMS.md": (EXECUTABLE, "base")}, {"COMMS.md": (FILE, "base")}),
        ({"COMMS.md": (EXECUTABLE, "base")}, {"COMMS.md": "base"}, {"COMMS.md": (EXECUTABLE, "base")}),
        ({"COMMS.md": "main"}, {"COMMS.md/x": "branch"}, {"COMMS.md": (FILE, "main")}),
        (
            {"COMMS.md": "main"},
            {"moved.md": "base"},
            {"COMMS.md": (FILE, "main"), "moved.md": (FILE, "base")},
        ),
    ],
)
def test_the_page_is_main_s_whatever_the_branch_did(
    git: Git, main: dict[str, Content], branch: dict[str, Content], expected: dict[str, tuple[str, str]]
) -> None:
    """Changed, deleted, moved, made a link or a directory: a branch's copy of the page never counts."""
    base = commit(git, {"COMMS.md": "base", "a": "1"})
    theirs = commit(git, {**branch, "a": "2"}, base, branch="b")
    seen = commit(git, {**main, "a": "1"}, base)
    new = merged(git, seen, theirs)
    texts = contents(git, new)
    assert texts.pop("a") == "2"
    assert {path: (listing(git, new)[path][0], text) for path, text in texts.items()} == expected


def test_histories_that_never_met_are_an_error(git: Git) -> None:
    """Not a conflict: there is nothing that merging main into it would mend."""
    one = commit(git, {"a": "1"})
    other = commit(git, {"b": "1"}, branch="b")
    with pytest.raises(GitError, match="unrelated histories"):
        merge_commit(git, one, other, "m")
    with pytest.raises(GitError):
        merge_commit(git, one, "0" * 40, "m")


@pytest.mark.parametrize(
    ("new", "beyond"),
    [
        ({"COMMS.md": "2", "a": "1", "d/b": "1"}, False),
        ({"COMMS.md": (EXECUTABLE, "0"), "a": "1", "d/b": "1"}, False),
        ({"a": "1", "d/b": "1"}, False),
        ({"COMMS.md": "0", "a": "1", "d/b": "1"}, False),
        ({"COMMS.md": "2", "a": "2", "d/b": "1"}, True),
        ({"COMMS.md": "0", "a": (EXECUTABLE, "1"), "d/b": "1"}, True),
        ({"COMMS.md": "0", "d/b": "1"}, True),
        ({"COMMS.md": "0", "a": "1", "d/b": "2"}, True),
        ({"COMMS.md": "0", "a": "1", "d/b": "1", "d/COMMS.md": ""}, True),
        ({"COMMS.md": "0", "a": "1", "d/b": "1", "comms.md": ""}, True),
        ({"COMMS.md/x": "0", "a": "1", "d/b": "1"}, True),
        ({"COMMS.md": "0", "a": "1", "d/b": "1", "m": (GITLINK, "1" * 40)}, True),
    ],
    ids=ascii,
)
def test_what_counts_as_a_change_beyond_the_page(git: Git, new: dict[str, Content], beyond: bool) -> None:
    """Any other file, its mode, a link to another repository, and a page that became a directory."""
    base = commit(git, {"COMMS.md": "0", "a": "1", "d/b": "1"})
    other = commit(git, new, base)
    plain(git.directory, "config", "diff.ignoreSubmodules", "all")
    assert changes_beyond_page(git, base, other) is beyond
    assert changes_beyond_page(git, other, base) is beyond
    assert not changes_beyond_page(git, other, other)
