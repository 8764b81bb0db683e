"""Files of a commit are read as they are and changed one at a time; a merge holds both sides, and names conflicts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.keep.repository.bare_tip import rollback_commit
from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.merge import MergeConflict, merge_commit
from infra.shared.repository.tip import commit_tree, edit_file, file_at, read_file, tree_with
from tests.shared.repository.history import (
    COMMIT,
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

MIXED: dict[str, Content] = {
    "COMMS.md": "page\n",
    "run": (EXECUTABLE, "#!/bin/sh\n"),
    "link": (LINK, "COMMS.md"),
    "module": (GITLINK, COMMIT),
    "deep/er/file": "x",
    "deep/run": (EXECUTABLE, ""),
    "caf\udce9": "latin",
    "a b\tc\"'": "odd",
    "COMMS.md.orig": "another",
    "comms.md": "small",
}


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return bare_repository(tmp_path / "r")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Git:
    """For tests that only add to it."""
    return bare_repository(tmp_path_factory.mktemp("shared") / "r")


@pytest.fixture(scope="module")
def mixed(shared: Git) -> str:
    return commit(shared, MIXED, branch="mixed")


def test_a_file_is_read_from_its_commit(git: Git) -> None:
    """By name, also below directories; what is not a file is not there."""
    at = commit(git, MIXED)
    assert read_file(git, at, "COMMS.md") == "page\n"
    assert read_file(git, "refs/heads/main", "deep/er/file") == "x"
    assert read_file(git, at, "run") == "#!/bin/sh\n"
    assert read_file(git, at, "caf\udce9") == "latin"
    for path in (
        "none",
        "deep",
        "deep/er",
        "deep/er/",
        "deep/er/file/x",
        "COMMS",
        "COMMS.*",
        "link",
        "module",
        ":/",
    ):
        assert read_file(git, at, path) is None, path


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\r\n", bytes(range(256)), b"\0\0\n\r\xe2\x80\xa8\xed\xa0\x80", b"\n\n"], ids=ascii
)
def test_any_bytes_survive_a_read_and_a_write_back(git: Git, content: bytes) -> None:
    """Also what is not UTF-8, has zero bytes or other line ends: only what is edited changes."""
    at = commit(git, {"a": content})
    assert (read_file(git, at, "a") or "").encode(errors="surrogateescape") == content
    new = edit_file(git, "a", lambda text: text + "+", "m")(at)
    assert new
    assert git.raw("cat-file", "blob", f"{new}:a") == content + b"+"
    assert edit_file(git, "a", lambda text: text, "m")(at) is None


@pytest.mark.parametrize(
    "path", ["COMMS.md", "run", "deep/run", "deep/er/file", "new", "new/er/file", "deep/new", "caf\udce9"]
)
def test_an_edit_touches_one_file(shared: Git, mixed: str, path: str) -> None:
    """The others keep content, kind and mode; the file its own mode; one commit on what was seen."""
    git, at = shared, mixed
    before = listing(git, at)
    new = edit_file(git, path, lambda text: text + "+", "why\n")(at)
    assert new
    after = listing(git, new)
    assert after.pop(path)[0] == before.pop(path, (FILE, ""))[0]
    assert after == before
    assert read_file(git, new, path) == (read_file(git, at, path) or "") + "+"
    assert parents(git, new) == [at]
    assert git("log", "-1", "--format=%B%an", new) == "why\nminifram agent"


@pytest.mark.parametrize("path", ["link", "module", "deep", "link/file", "COMMS.md/file"])
def test_what_is_in_the_way_of_a_file_is_replaced(shared: Git, mixed: str, path: str) -> None:
    """A link is not followed and a directory does not keep a page from being written."""
    git, at = shared, mixed
    new = edit_file(git, path, lambda text: text + "new", "m")(at)
    assert new
    assert listing(git, new)[path][0] == FILE
    assert read_file(git, new, path) == "new"
    assert not plain(git.directory, "fsck", "--strict", "--connectivity-only", new).stderr.startswith("error")
    top = path.split("/")[0]
    unrelated = {name: entry for name, entry in listing(git, at).items() if name.split("/")[0] != top}
    assert {name: entry for name, entry in listing(git, new).items() if name.split("/")[0] != top} == unrelated


def test_nothing_written_is_nothing_changed(git: Git) -> None:
    """The same text, and no text for a file that is not there, are no commit."""
    at = commit(git, MIXED)
    assert edit_file(git, "COMMS.md", lambda text: text, "m")(at) is None
    assert edit_file(git, "new", lambda text: text, "m")(at) is None
    emptied = edit_file(git, "COMMS.md", lambda text: "", "m")(at)
    assert emptied
    assert read_file(git, emptied, "COMMS.md") == ""


def test_a_page_that_cannot_be_read_is_not_taken_for_an_empty_one(git: Git) -> None:
    """A damaged object is an error: an edit on "nothing" would wipe out the page."""
    at = commit(git, {"COMMS.md": "page\n"})
    assert read_file(git, at, "COMMS.md") == "page\n"
    [pack] = Path(git.directory, "objects/pack").glob("*.pack")
    git("unpack-objects", "-q", stdin=pack.rename(f"{git.directory}/pack").read_bytes())
    for name in (f"{at}:COMMS.md", f"{at}^{{tree}}"):
        id = plain(git.directory, "rev-parse", name).stdout.strip()
        loose = Path(git.directory, "objects", id[:2], id[2:])
        assert loose.exists()
        os.rename(loose, f"{git.directory}/aside")
        with pytest.raises(GitError):
            read_file(git, at, "COMMS.md")
        with pytest.raises(GitError):
            edit_file(git, "COMMS.md", lambda text: text + "+", "m")(at)
        os.rename(f"{git.directory}/aside", loose)
    with pytest.raises(GitError):
        read_file(git, "0" * 40, "COMMS.md")
    with pytest.raises(GitError):
        file_at(git, "refs/heads/none", "COMMS.md")


def test_paths_are_set_and_removed(git: Git) -> None:
    """Several at once; a directory that nothing is left in goes with its last file."""
    at = commit(git, MIXED)
    page = listing(git, at)["COMMS.md"][1]
    tree = tree_with(
        git, at, {"deep/er/file": None, "deep/copy": page, "run": page, "link": None, "none": None, "a/b": None}
    )
    after = listing(git, commit_tree(git, tree, (at,), "m"))
    expected = {path: entry for path, entry in listing(git, at).items() if path not in ("deep/er/file", "link")}
    assert after == expected | {"deep/copy": (FILE, page), "run": (EXECUTABLE, page)}
    assert tree_with(git, tree, {}) == tree


@pytest.mark.parametrize("message", ["subject\n\nbody\n", "", "a\0b", "\ud800 \udcff", "-m x", "#hash", "é" * 5000])
def test_any_words_can_be_a_message(shared: Git, mixed: str, message: str) -> None:
    """Titles hold the model's words; a commit is never refused for them."""
    git, at = shared, mixed
    new = commit_tree(git, f"{at}^{{tree}}", (at,), message)
    written = message.replace("\0", "?").encode(errors="replace")
    assert git.raw("cat-file", "commit", new).split(b"\n\n", 1)[1] == written
    assert parents(git, new) == [at]


def test_what_names_no_commit_cannot_be_rolled_back_to(git: Git) -> None:
    """The error names it and says where to look."""
    seen = commit(git, {"a": "1"})
    with pytest.raises(LookupError, match=r"names no commit in the repository; see 'git log --oneline --all'"):
        rollback_commit(git, seen, "none", "back")


def test_what_is_written_is_on_the_disk(git: Git, tmp_path: Path) -> None:
    """File, tree and commit are each flushed where `core.fsync` says so; where it says none, nothing is."""
    at = commit(git, MIXED)
    flushed = []
    for number, wanted in enumerate(("all", "none")):
        git("config", "core.fsync", wanted)
        trace = tmp_path / wanted
        traced = git.with_env(GIT_TRACE2_PERF=str(trace))
        new = edit_file(traced, "deep/er/file", lambda _, number=number: f"new {number}", "m")(at)  # type: ignore[misc]
        assert new
        assert read_file(git, new, "deep/er/file") == f"new {number}"
        flushed.append(trace.read_text().count("fsync/hardware-flush:1"))
    assert flushed == [5, 0], "a file, three trees and a commit"


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
    odd = 'a\ttab "quoted" é'  # fast-import takes a name to the end of its line
    base = commit(git, {"COMMS.md": "0", "a": "1", "b": "1", "c": "1", "kept": "1"})
    branch = commit(git, {"COMMS.md": "1", "a": "2", "b": "1", "c": "2", "kept": "1", odd: "2"}, base, branch="b")
    seen = commit(git, {"COMMS.md": "2", "a": "3", "b": "2", "kept": "1", odd: "3"}, base)
    with pytest.raises(MergeConflict, match="merge main into the branch and push it, then try again") as conflict:
        merge_commit(git, seen, branch, "m")
    assert sorted(conflict.value.files) == sorted(["a", "c", odd])
    assert all(name in str(conflict.value) for name in ("a", "c"))
    assert plain(git.directory, "rev-parse", "main").stdout.strip() == seen


@pytest.fixture(scope="module")
def base(shared: Git) -> str:
    return commit(shared, {"COMMS.md": "base", "a": "1"}, branch="base")


@pytest.mark.parametrize(
    ("main", "theirs"),
    [
        ({"COMMS.md": "main"}, {"COMMS.md": "theirs"}),
        ({"COMMS.md": "main"}, {}),
        ({"COMMS.md": "base"}, {"COMMS.md": "theirs"}),
        ({"COMMS.md": "base"}, {}),
        ({}, {"COMMS.md": "theirs"}),
        ({}, {"COMMS.md": "base"}),
        ({}, {}),
        ({"COMMS.md": "main"}, {"COMMS.md": (LINK, "a")}),
        ({"COMMS.md": "base"}, {"COMMS.md": (EXECUTABLE, "base")}),
        ({"COMMS.md": (EXECUTABLE, "base")}, {"COMMS.md": "base"}),
        ({"COMMS.md": "main"}, {"COMMS.md/x": "theirs"}),
        ({"COMMS.md": "main"}, {"moved.md": "base"}),
        ({"COMMS.md/x": "main"}, {"COMMS.md": "theirs"}),
    ],
)
def test_the_page_is_main_s_whatever_it_was_there(
    shared: Git, base: str, main: dict[str, Content], theirs: dict[str, Content]
) -> None:
    """Changed, deleted, moved, made a link or a directory: the page of a branch, or of what is rolled back to, never
    counts; main's stays, with its own mode, or there is none."""
    git = shared
    other = commit(git, {**theirs, "a": "2"}, base, branch="b")
    seen = commit(git, {**main, "a": "1"}, base)
    there = listing(git, other)
    expected = {path: entry for path, entry in listing(git, seen).items() if path == "COMMS.md"}
    expected |= {path: entry for path, entry in there.items() if path in ("a", "moved.md")}
    for new in (merge_commit(git, seen, other, "m"), rollback_commit(git, seen, other, "m")):
        assert new
        assert (parents(git, new)[0], git("log", "-1", "--format=%s", new)) == (seen, "m")
        assert listing(git, new) == expected


def test_histories_that_never_met_are_an_error(git: Git) -> None:
    """Not a conflict: there is nothing that merging main into it would mend."""
    one = commit(git, {"a": "1"})
    other = commit(git, {"b": "1"}, branch="b")
    with pytest.raises(GitError, match="unrelated histories"):
        merge_commit(git, one, other, "m")
    with pytest.raises(GitError):
        merge_commit(git, one, "0" * 40, "m")


@pytest.fixture(scope="module")
def page_and_more(shared: Git) -> str:
    plain(shared.directory, "config", "diff.ignoreSubmodules", "all")
    return commit(shared, {"COMMS.md": "0", "a": "1", "d/b": "1"}, branch="more")


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
def test_what_counts_as_a_change_beyond_the_page(
    shared: Git, page_and_more: str, new: dict[str, Content], beyond: bool
) -> None:
    """Any other file, its mode, a link to another repository, and a page that became a directory."""
    git, base = shared, page_and_more
    other = commit(git, new, base, branch="other")
    assert changes_beyond_page(git, base, other) is beyond
    assert changes_beyond_page(git, other, base) is beyond
    assert not changes_beyond_page(git, other, other)
