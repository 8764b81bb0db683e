"""The one writer of main's page beside the PM: reports, ticks and what moves to the archive, in one commit on top of
what is there, so that whoever pushes meanwhile loses nothing."""

from __future__ import annotations

from collections.abc import Sequence

from infra.shared.branches import MAIN
from infra.shared.people import Person
from infra.shared.repository.git import Git
from infra.shared.repository.page_text import ARCHIVE, PAGE, Entry, PageBounds, Pages, next_pages
from infra.shared.repository.tip import BareTip, advance, commit_tree, read_file, tree_with
from infra.shared.repository.trailers import said_by

_ID = "Report"
_LOOKED_BACK = 300


def pages_at(git: Git, commit: str) -> Pages:
    """Raises GitError."""
    return Pages(read_file(git, commit, PAGE) or "", read_file(git, commit, ARCHIVE) or "")


def write_reports(
    git: Git, subject: str, entries: Sequence[Entry], ids: Sequence[str], ticks: tuple[str, ...], bounds: PageBounds
) -> str:
    """Put these on main's page; gives main's commit then. `git` is the bare repository and says who commits.

    Its message names the ids, by which `told` knows them. Raises GitError, TipBusy, OSError."""
    message = "\n".join([subject, "", *(f"{_ID}: {id}" for id in ids)])

    def next_commit(seen: str) -> str | None:
        now = pages_at(git, seen)
        then = next_pages(now, entries, ticks, bounds)
        if then == now:
            return None
        blobs: dict[str, str | None] = {
            path: git("hash-object", "-w", "--stdin", stdin=text.encode(errors="surrogateescape"))
            for path, before, text in zip((PAGE, ARCHIVE), now, then, strict=True)
            if text != before
        }
        return commit_tree(git, tree_with(git, seen, blobs), (seen,), message)

    return advance(BareTip(git), next_commit)


def told(git: Git, person: Person) -> frozenset[str]:
    """The ids of the reports in the last commits of main that this person committed. Raises GitError."""
    return frozenset(said_by(git, person, _ID, f"refs/heads/{MAIN}", _LOOKED_BACK))
