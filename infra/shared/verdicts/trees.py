"""The trees that an examination is about: what merging would make of main, and its key."""

from __future__ import annotations

from infra.shared.people import WATCHER
from infra.shared.repository.git import Git
from infra.shared.repository.merge import merge_commit
from infra.shared.repository.page_text import PAGES
from infra.shared.repository.tip import Entry, commit_tree, tree_with_entries
from infra.shared.verdicts.paths import SETTINGS, TESTS

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
    tree = git("rev-parse", "--verify", f"{commit}^{{tree}}")
    if tests_of:
        tree = _with_tests(git, commit, tests_of)
    return commit_tree(git.with_env(**_ALWAYS_THE_SAME), tree, (), "examined\n")


_ALWAYS_THE_SAME = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", WATCHER.name), ("EMAIL", WATCHER.email), ("DATE", "2000-01-01T00:00:00Z"))
}
"""So that the same files are the same commit."""


def _with_tests(git: Git, commit: str, tests_of: str) -> str:
    ours, theirs = _top(git, commit), _top(git, tests_of)
    changed = [name for name in ours.keys() | theirs.keys() if name == TESTS or name in _AT_TOP]
    entries = {name: theirs.get(name) for name in changed if ours.get(name) != theirs.get(name)}
    plain = {name: entry for name, entry in entries.items() if name != TESTS}
    tree = tree_with_entries(git, commit, plain)
    if TESTS not in entries:
        return tree
    return _with_directory(git, tree, theirs.get(TESTS))


def _with_directory(git: Git, tree: str, tests: Entry | None) -> str:
    lines = [line for line in git.raw("ls-tree", "-z", "--full-tree", tree).split(b"\0") if line]
    lines = [line for line in lines if line.partition(b"\t")[2] != TESTS.encode()]
    if tests:
        kind = "tree" if tests.mode == "040000" else "blob"
        lines.append(f"{tests.mode} {kind} {tests.id}\t{TESTS}".encode())
    return git("mktree", "-z", stdin=b"".join(line + b"\0" for line in lines))


def files_of(git: Git, commit: str) -> dict[str, str]:
    """What tells how tests run, as `selection.Files`. Raises GitError."""
    top = [name for name in _top(git, commit) if name in _AT_TOP]
    listed = git.saying_at_most(LISTING_BYTES).raw("ls-tree", "-r", "-z", "--full-tree", commit, "--", TESTS, *top)
    lines = (line.partition("\t") for line in listed.decode(errors="surrogateescape").split("\0") if line)
    return {path: f"{words.split()[0]} {words.split()[2]}" for words, _, path in lines}


def _top(git: Git, commit: str) -> dict[str, Entry]:
    listed = git.saying_at_most(LISTING_BYTES).raw("ls-tree", "-z", "--full-tree", commit)
    lines = (line.partition("\t") for line in listed.decode(errors="surrogateescape").split("\0") if line)
    return {name: Entry(words.split()[0], words.split()[2]) for words, _, name in lines}


_AT_TOP = frozenset((*SETTINGS, "conftest.py"))


def pack(git: Git, *commits: str) -> bytes:
    """All objects of these commits as one pack. Raises GitError."""
    listed = git.raw("rev-list", "--objects", *commits)
    ids = b"".join(line[:40] + b"\n" for line in listed.split(b"\n") if line)
    return git.raw("pack-objects", "--stdout", "-q", "--delta-base-offset", stdin=ids)
