"""Whether the commits of a push leave the page and its archive alone: in each of them both are as in its newest
ancestor on main, and one that descends from nothing on main has neither.

It is not enough that main once held such a page: an old page on top of a new main would bring back what the PM has
taken out since. And it is asked of each commit, not of the push as a whole: the PM may merge any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from infra.shared.repository.git import Git, GitError
from infra.shared.repository.page_text import PAGES

MAX_LOOKS = 2000
"""Commits of one push whose pages are read one by one: merges, and those that change a page."""

Held = tuple[str, ...]
"""How `PAGES` stand in a commit: mode, kind and id of each that is there, and its name."""


class Wrong(NamedTuple):
    """A commit that does not leave the pages alone."""

    commit: str
    anchor: str
    """Its newest ancestor on main; empty when it has none."""


class TooTangled(ValueError):
    """Two of main's commits are ancestors, and neither has the newer page."""


class NewCommit(NamedTuple):
    id: str
    parents: tuple[str, ...]
    touches: bool
    """A page differs from that of one of the parents."""


def first_wrong(
    commits: Iterable[NewCommit],
    tip: str,
    held: Callable[[str], Held],
    anchor_of_known: Callable[[str], str],
    newest: Callable[[frozenset[str]], str],
) -> Wrong | None:
    """The first of these commits (parents first) that changes a page, or the tip, when that is not among them.

    `anchor_of_known` gives the anchor of a commit that was there before the push, `newest` the newest of several."""
    anchors: dict[str, str] = {}
    for commit in commits:
        above = {anchors.get(parent) if parent in anchors else anchor_of_known(parent) for parent in commit.parents}
        found = frozenset(each for each in above if each)
        anchor = newest(found) if len(found) > 1 else next(iter(found), "")
        anchors[commit.id] = anchor
        plain = len(commit.parents) == 1 and not commit.touches and commit.parents[0] in {*anchors, anchor}
        # One that changes no page of its only parent is as right as that one, which was looked at.
        if not plain and held(commit.id) != _due(anchor, held):
            return Wrong(commit.id, anchor)
    if tip not in anchors:
        anchor = anchor_of_known(tip)
        if anchor != tip and held(tip) != _due(anchor, held):
            return Wrong(tip, anchor)
    return None


def _due(anchor: str, held: Callable[[str], Held]) -> Held:
    return held(anchor) if anchor else ()


class Graph:
    """What the repository says of commits and main. Answers are remembered; each may raise GitError."""

    def __init__(self, git: Git, main: str | None) -> None:
        self._git = git
        self._main = main
        self._held: dict[str, Held] = {}
        self._anchors: dict[str, str] = {}

    def held(self, commit: str) -> Held:
        if commit not in self._held:
            if len(self._held) >= MAX_LOOKS:
                raise TooTangled(f"over {MAX_LOOKS} of its commits are merges or change {PAGES[0]}; push fewer at once")
            listed = self._git.raw("ls-tree", "-z", "--full-tree", commit, "--", *PAGES)
            self._held[commit] = tuple(sorted(listed.decode(errors="replace").split("\0")[:-1]))
        return self._held[commit]

    def anchor(self, commit: str) -> str:
        """The newest ancestor on main of a commit that is there; itself when it is on main."""
        if self._main is None:
            return ""
        if commit not in self._anchors:
            words = self._git_or_nothing("merge-base", "--all", commit, self._main).split()
            self._anchors[commit] = self.newest(frozenset(words)) if words else ""
        return self._anchors[commit]

    def newest(self, commits: frozenset[str]) -> str:
        """Of these commits of main the one whose page is the newest. Raises TooTangled."""
        if len(commits) == 1:
            return next(iter(commits))
        left = self._git("merge-base", "--independent", *sorted(commits)).split()
        if len(left) == 1:
            return left[0]
        # They met in main later, so they say nothing of each other; what made their pages may.
        made = {each: self._git("rev-list", "--max-count=1", each, "--", *PAGES) for each in left}
        for each in left:
            if all(not made[other] or self._git.ok("merge-base", "--is-ancestor", made[other], each) for other in left):
                return each
        raise TooTangled(f"it joins {' and '.join(each[:12] for each in left)} of main, whose pages differ; rebase it")

    def _git_or_nothing(self, *words: str) -> str:
        try:
            return self._git(*words)
        except GitError as error:
            if error.status == 1:  # no common ancestor
                return ""
            raise


def wrong_in(git: Git, main: str | None, tip: str, touched: Mapping[str, bool]) -> Wrong | None:
    """The first commit of a push up to `tip` that changes a page. `touched` are its new commits, and whether each
    differs from a parent in a page. Raises GitError, TooTangled."""
    graph = Graph(git, main)
    listed = git("rev-list", "--topo-order", "--reverse", "--parents", tip, "--not", "--all", "--") if touched else ""
    lines = (line.split() for line in listed.splitlines())
    commits = [NewCommit(id, tuple(parents), touched.get(id, True)) for id, *parents in lines]
    return first_wrong(commits, tip, graph.held, graph.anchor, graph.newest)
