"""The trees that an examination is about: what merging would make of main, and its key."""

from __future__ import annotations

from infra.keep.verdicts.paths import SETTINGS, TESTS
from infra.shared.people import WATCHER
from infra.shared.repository.git import Git
from infra.shared.repository.merge import merge_commit
from infra.shared.repository.page_text import PAGES
from infra.shared.repository.tip import commit_tree, list_tree, write_tree

LISTING_BYTES = 32 << 20


def key_of(git: Git, commit: str) -> str:
    """The id of the commit's tree without the pages, so that reports make no verdict stale. Nothing is written.

    Raises GitError."""
    listed = git.saying_at_most(LISTING_BYTES).raw("ls-tree", "-z", "--full-tree", commit).split(b"\0")
    kept = [line for line in listed if line and line.partition(b"\t")[2].decode(errors="replace") not in PAGES]
    raw = b""
    for line in kept:
        words, _, name = line.partition(b"\t")
        mode, _, id = words.decode().split()
        raw += mode.lstrip("0").encode() + b" " + name + b"\0" + bytes.fromhex(id)
    return git("hash-object", "-t", "tree", "--literally", "--stdin", stdin=raw)


def merged(git: Git, main: str, commit: str) -> str:
    """A commit with the tree that merging would give; main itself when there is nothing to merge. No ref names it.

    Raises GitError, MergeConflict."""
    # The same question, asked again and again, leaves one object behind.
    return merge_commit(git.with_env(**_ALWAYS_THE_SAME), main, commit, "What would be merged\n") or main


def snapshot(git: Git, commit: str, tests_of: str | None = None) -> str:
    """A commit without history and with this commit's tree; with the tests and pytest settings of `tests_of`, if given.

    Raises GitError."""
    tree = _with_tests(git, commit, tests_of) if tests_of else git("rev-parse", "--verify", f"{commit}^{{tree}}")
    return commit_tree(git.with_env(**_ALWAYS_THE_SAME), tree, (), "examined\n")


_ALWAYS_THE_SAME = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", WATCHER.name), ("EMAIL", WATCHER.email), ("DATE", "2000-01-01T00:00:00Z"))
}
"""So that the same files are the same commit."""


def _with_tests(git: Git, commit: str, tests_of: str) -> str:
    ours, theirs = list_tree(git, commit), list_tree(git, tests_of)
    tests = {name: entry for name, entry in theirs.items() if name == TESTS or name in _AT_TOP}
    rest = {name: entry for name, entry in ours.items() if name != TESTS and name not in _AT_TOP}
    return write_tree(git, rest | tests)


def files_of(git: Git, commit: str) -> dict[str, str]:
    """What tells how tests run, as `selection.Files`. Raises GitError."""
    top = [name for name in list_tree(git, commit) if name in _AT_TOP]
    listed = git.saying_at_most(LISTING_BYTES).raw("ls-tree", "-r", "-z", "--full-tree", commit, "--", TESTS, *top)
    lines = (line.partition("\t") for line in listed.decode(errors="surrogateescape").split("\0") if line)
    return {path: f"{words.split()[0]} {words.split()[2]}" for words, _, path in lines}


_AT_TOP = frozenset((*SETTINGS, "conftest.py"))


def pack(git: Git, *commits: str) -> bytes:
    """All objects of these commits as one pack. Raises GitError."""
    listed = git.raw("rev-list", "--objects", *commits)
    ids = b"".join(line[:40] + b"\n" for line in listed.split(b"\n") if line)
    return git.raw("pack-objects", "--stdout", "-q", "--delta-base-offset", stdin=ids)
