"""Whether the commits of a push leave the page and its archive alone: in each of them both are as in its newest
ancestor on main, and one without an ancestor on main has neither.

It is not enough that main once held such a page: an old page on top of a new main would bring back what the PM has
taken out since. And each commit is looked at, not the push as a whole: the PM may merge any of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from infra.shared.repository.git import Git, GitError
from infra.shared.repository.page_text import PAGES

MAX_LOOKS = 2000
"""Commits of one push whose pages are read one by one: merges, and those that change a page."""


class Wrong(NamedTuple):
    """A commit that does not leave the pages alone."""

    commit: str
    anchor: str
    """Its newest ancestor on main; empty when it has none."""


class TooTangled(ValueError):
    """Two of main's commits are ancestors, and neither has the newer page."""


class Graph:
    """What the repository says of commits and main. Answers are remembered; each may raise GitError."""

    def __init__(self, git: Git, main: str | None) -> None:
        self._git = git
        self._main = main
        self._pages: dict[str, tuple[str, ...]] = {}
        self._anchors: dict[str, str] = {}

    def has_pages_of(self, commit: str, anchor: str) -> bool:
        """Both pages of the commit are those of `anchor`; it has none when that is empty."""
        return self._held(commit) == (self._held(anchor) if anchor else ())

    def _held(self, commit: str) -> tuple[str, ...]:
        """Mode, kind, id and name of each page that is there."""
        if commit not in self._pages:
            if len(self._pages) >= MAX_LOOKS:
                raise TooTangled(f"over {MAX_LOOKS} of its commits are merges or change {PAGES[0]}; push fewer at once")
            listed = self._git.raw("ls-tree", "-z", "--full-tree", commit, "--", *PAGES)
            self._pages[commit] = tuple(sorted(listed.decode(errors="replace").split("\0")[:-1]))
        return self._pages[commit]

    def anchor(self, commit: str) -> str:
        """The newest ancestor on main of a commit in the repository; the commit itself when it is on main."""
        if self._main is None:
            return ""
        if commit not in self._anchors:
            try:
                found = self._git("merge-base", "--all", commit, self._main).split()
            except GitError as error:
                if error.status != 1:  # 1: no common ancestor
                    raise
                found = []
            self._anchors[commit] = self.newest(frozenset(found))
        return self._anchors[commit]

    def newest(self, commits: frozenset[str]) -> str:
        """Of these commits of main the one whose page is the newest; empty for none. Raises TooTangled."""
        if len(commits) <= 1:
            return next(iter(commits), "")
        left = self._git("merge-base", "--independent", *sorted(commits)).split()
        if len(left) == 1:
            return left[0]
        # They met in main later, so they say nothing of each other; what made their pages may.
        made = {each: self._git("rev-list", "--max-count=1", each, "--", *PAGES) for each in left}
        for each in left:
            if all(not made[other] or self._git.ok("merge-base", "--is-ancestor", made[other], each) for other in left):
                return each
        raise TooTangled(f"it joins {' and '.join(each[:12] for each in left)} of main, whose pages differ; rebase it")


def wrong_in(git: Git, main: str | None, tip: str, touched: Mapping[str, bool]) -> Wrong | None:
    """The first commit of a push up to `tip`, parents first, that changes a page; the tip is judged also when the
    repository has it already. `touched` are the new commits, and whether each differs from a parent in a page.

    Raises GitError, TooTangled."""
    graph = Graph(git, main)
    listed = git("rev-list", "--topo-order", "--reverse", "--parents", tip, "--not", "--all", "--") if touched else ""
    anchors: dict[str, str] = {}
    for line in listed.splitlines():
        commit, *parents = line.split()
        above = {anchors[parent] if parent in anchors else graph.anchor(parent) for parent in parents}
        anchor = anchors[commit] = graph.newest(frozenset(above - {""}))
        # One that changes no page of its only parent is as right as that one, which was looked at.
        is_plain = len(parents) == 1 and not touched.get(commit, True)
        if is_plain and (parents[0] in anchors or parents[0] == anchor):
            continue
        if not graph.has_pages_of(commit, anchor):
            return Wrong(commit, anchor)
    if tip in anchors:
        return None
    anchor = graph.anchor(tip)
    return None if graph.has_pages_of(tip, anchor) else Wrong(tip, anchor)
