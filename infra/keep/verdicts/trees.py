"""The trees that an examination is about: what merging would make of main, its key, and what differs in it."""

from __future__ import annotations

from collections.abc import Iterable

from infra.keep.repository.changed_files import changes
from infra.keep.verdicts.paths import SETTINGS, TESTS, needs_examination
from infra.shared.people import WATCHER
from infra.shared.repository.changes import Change
from infra.shared.repository.git import Git, resolve_commit
from infra.shared.repository.merge import merge_commit
from infra.shared.repository.tip import commit_tree, list_tree, write_tree

LISTING_BYTES = 32 << 20


def key_of(git: Git, commit: str) -> str:
    """Names all files of the commit that the agent is made of, so that no other makes a verdict stale. Nothing is
    written. Raises GitError."""
    listed = git.saying_at_most(LISTING_BYTES).raw("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")
    lines = ((line, *line.partition(b"\t")[::2]) for line in listed if line)
    made_of = [
        line
        for line, words, path in lines
        if needs_examination(path.decode(errors="surrogateescape"), words.decode().split()[0])
    ]
    return git("hash-object", "--stdin", stdin=b"\0".join(made_of))


def are_alike(git: Git, before: str, now: str) -> bool:
    """Whether nothing that needs an examination differs between two commits of main. Raises GitError."""
    if before == now:
        return True
    if resolve_commit(git, before) is None:  # main was rewritten, and that is gone
        return False
    return not first_needing(changes(git, before, now).values())


def first_needing(found: Iterable[Change]) -> str:
    """The path of the first of these changes that needs an examination; empty when none does."""
    for each in found:
        if any(mode and needs_examination(each.path, mode) for mode in (each.mode_before, each.mode)):
            return each.path
    return ""


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
    """All objects of these commits, without those before them, as one pack. Raises GitError."""
    listed = git.raw("rev-list", "--objects", "--no-walk", *commits)
    ids = b"".join(line[:40] + b"\n" for line in listed.split(b"\n") if line)
    # Read once, on this machine: looking for more deltas than there are takes four times as long.
    return git.raw("pack-objects", "--stdout", "-q", "--delta-base-offset", "--window=0", stdin=ids)
