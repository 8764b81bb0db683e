"""Which COMMS.md, and which archive, a commit has to hold: those of main where its history left it."""

from __future__ import annotations

from infra.shared.paths import PAGES
from infra.shared.repository.git import Git, GitError


class PagesDiffer(ValueError):
    """The commit joins several commits of main that hold different pages."""


def pages_at(git: Git, commit: str) -> str:
    """Mode, kind, id and name of each page that is there. Raises GitError."""
    return git("ls-tree", "-z", "--full-tree", commit, "--", *PAGES)


def anchor_of(git: Git, main: str, *commits: str) -> str:
    """The commit of main whose pages a commit with these parents, or this one itself, holds; empty when main has
    nothing of its history. Raises GitError, PagesDiffer."""
    try:
        found = git("merge-base", "--all", main, *commits).split()
    except GitError as error:
        if error.status != 1:  # 1: no common ancestor
            raise
        return ""
    if len({pages_at(git, each) for each in found}) > 1:
        joined = " and ".join(each[:12] for each in found[:2])
        raise PagesDiffer(f"it joins {joined} of main, whose pages differ; rebase it")
    return found[0]
