"""Files of a commit: read as they are, changed one at a time, and never taken for absent when they cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infra.keep.repository.bare_tip import rollback_commit
from infra.shared.repository.git import Git, GitError
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
def test_an_edit_touches_one_file(git: Git, path: str) -> None:
    """The others keep content, kind and mode; the file its own mode; one commit on what was seen."""
    at = commit(git, MIXED)
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
def test_what_is_in_the_way_of_a_file_is_replaced(git: Git, path: str) -> None:
    """A link is not followed and a directory does not keep a page from being written."""
    at = commit(git, MIXED)
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
    for name in (f"{at}:COMMS.md", f"{at}^{{tree}}"):
        id = plain(git.directory, "rev-parse", name).stdout.strip()
        plain(git.directory, "unpack-objects")
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


def test_an_entry_is_a_file_with_its_mode(git: Git) -> None:
    """A link too; a directory or another repository is none."""
    at = commit(git, MIXED)
    files = listing(git, at)
    for path in ("COMMS.md", "run", "link", "deep/run"):
        entry = file_at(git, at, path)
        assert entry
        assert tuple(entry) == files[path]
    for path in ("module", "deep", "none"):
        assert file_at(git, at, path) is None


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
def test_any_words_can_be_a_message(git: Git, message: str) -> None:
    """Titles hold the model's words; a commit is never refused for them."""
    at = commit(git, MIXED)
    new = commit_tree(git, f"{at}^{{tree}}", (at,), message)
    written = message.replace("\0", "?").encode(errors="replace")
    assert git.raw("cat-file", "commit", new).split(b"\n\n", 1)[1] == written
    assert parents(git, new) == [at]


def rolled(git: Git, seen: str, target: str) -> str:
    new = rollback_commit(git, seen, target, "back")
    assert parents(git, new) == [seen]
    assert git("log", "-1", "--format=%s", new) == "back"
    return new


def test_a_rollback_has_the_old_tree_and_the_present_page(git: Git) -> None:
    """History only grows: the new commit is on what is there, and everything but COMMS.md is as it was."""
    old = commit(git, MIXED)
    middle = commit(git, {"COMMS.md": "later\n", "b": "2"}, old)
    seen = commit(git, {"COMMS.md": "latest\n", "b": "3", "c": "4"}, middle)
    new = rolled(git, seen, old)
    assert read_file(git, new, "COMMS.md") == "latest\n"
    assert {path: entry for path, entry in listing(git, new).items() if path != "COMMS.md"} == {
        path: entry for path, entry in listing(git, old).items() if path != "COMMS.md"
    }
    again = rolled(git, new, new)
    assert listing(git, again) == listing(git, new)


def test_what_names_no_commit_cannot_be_rolled_back_to(git: Git) -> None:
    """The error names it and says where to look."""
    seen = commit(git, {"a": "1"})
    with pytest.raises(LookupError, match=r"names no commit in the repository; see 'git log --oneline --all'"):
        rollback_commit(git, seen, "none", "back")


@pytest.mark.parametrize(
    ("present", "old", "expected"),
    [
        ({"COMMS.md": "now"}, {}, {"COMMS.md": (FILE, "now")}),
        ({}, {"COMMS.md": "then"}, {}),
        ({}, {}, {}),
        ({"COMMS.md": (EXECUTABLE, "now")}, {"COMMS.md": "then"}, {"COMMS.md": (EXECUTABLE, "now")}),
        ({"COMMS.md": "now"}, {"COMMS.md": (LINK, "a")}, {"COMMS.md": (FILE, "now")}),
        ({"COMMS.md": "now"}, {"COMMS.md/x": "then"}, {"COMMS.md": (FILE, "now")}),
        ({"COMMS.md/x": "now"}, {"COMMS.md": "then"}, {}),
    ],
)
def test_the_page_is_the_present_s_whatever_it_was(
    git: Git, present: dict[str, Content], old: dict[str, Content], expected: dict[str, tuple[str, str]]
) -> None:
    """The present's page with its own mode, or none if there is none; nothing of the old one."""
    target = commit(git, {"a": "1", **old})
    seen = commit(git, {"a": "2", **present}, target)
    new = rolled(git, seen, target)
    texts = contents(git, new)
    assert texts.pop("a") == "1"
    assert {path: (listing(git, new)[path][0], text) for path, text in texts.items()} == expected


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
