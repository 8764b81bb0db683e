"""Tree entries, tags and commit headers that no push may bring: submodules, links in the place of files that git or the
PM reads, two names that one file system takes for the same, tags in another name, several committers. Pure.

Each new tree is judged by itself, whichever commit holds it and wherever: a commit in the middle of a push can be
checked out like any other."""

from __future__ import annotations

import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from infra.keep.folding import folded
from infra.shared.people import AGENT
from infra.shared.text import cut

NEVER_LINKS = (".gitattributes", ".gitignore", ".gitmodules", ".mailmap")
"""A page is in no push as anything but what main has (`decide`)."""
NEVER_AT_TOP = (".gitmodules", ".mailmap")


class DirectoryEntry(NamedTuple):
    mode: int
    name: str


def entries_of(tree: bytes) -> Iterator[DirectoryEntry]:
    """The entries of a tree object with SHA-1 ids. Raises ValueError for anything else."""
    at = 0
    while at < len(tree):
        end = tree.index(b"\0", at)
        mode, _, name = tree[at:end].partition(b" ")
        yield DirectoryEntry(int(mode, 8), name.decode(errors="surrogateescape"))
        at = end + 1 + 20


def problems_with_tree(entries: Iterable[DirectoryEntry]) -> list[str]:
    """What is wrong with a directory, and what to do instead."""
    problems = []
    by_name: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        by_name[folded(entry.name)].append(entry.name)
        if problem := problem_with_entry(entry):
            problems.append(problem)
    for names in by_name.values():
        if len(names) > 1:
            both = " and ".join(shown(name) for name in names[:2])
            problems.append(f"{both} are one name where capital letters count for nothing; rename one of them")
    return problems


def problem_with_entry(entry: DirectoryEntry) -> str | None:
    kind = stat.S_IFMT(entry.mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):  # git takes every other type for a submodule
        return (
            f"{shown(entry.name)} is a submodule, whose files are in no commit here; commit the files themselves (git "
            "rm --cached, remove its .git directory, git add)"
        )
    if kind == stat.S_IFLNK and folded(entry.name) in _NEVER_LINKS:
        return f"{shown(entry.name)} is a symbolic link; make it a regular file"
    return None


def problem_with_top(names: Iterable[str]) -> str | None:
    """`names`: what is new at the top of the repository."""
    for name in sorted(names):
        if folded(name) in NEVER_AT_TOP:  # neither is needed here, and each changes what the PM's git shows or fetches
            return f"{shown(name)} is not taken at the top of the repository; remove it"
    return None


def problem_with_tag(tag: bytes) -> str | None:
    """`tag`: an annotated tag."""
    header = tag.partition(b"\n\n")[0].split(b"\n")
    taggers = [line.removeprefix(b"tagger ").rpartition(b">")[0] + b">" for line in header if line[:7] == b"tagger "]
    if taggers in ([], [f"{AGENT.name} <{AGENT.email}>".encode()]):
        return None
    return f"an annotated tag names another tagger than {AGENT.name} <{AGENT.email}>; make it again as yourself"


def problem_with_headers(commit: bytes) -> str | None:
    """Git itself tells of the last committer and shows each, other programs of the first. Names in another encoding are
    others where git knows it, as the PM's may, than where it does not, as here perhaps."""
    lines = commit.partition(b"\n\n")[0].split(b"\n")
    for who in (b"author", b"committer"):
        if sum(line.startswith(who + b" ") for line in lines) != 1:
            return f"a commit names more than one {who.decode()}, or none; make it again with git commit"
    if any(line.startswith(b"encoding ") and line.lower() != b"encoding utf-8" for line in lines):
        return "a commit has another encoding than UTF-8; make it again without i18n.commitEncoding"
    return None


def shown(name: str) -> str:
    return repr(cut(name, 200))


_NEVER_LINKS = frozenset(map(folded, NEVER_LINKS))
