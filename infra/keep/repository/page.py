"""The one writer of main's page beside the PM: reports, ticks and what moves to the archive, in one commit on top of
what is there, so that a push meanwhile loses nothing."""

from __future__ import annotations

from collections.abc import Sequence

from infra.keep.repository.bare_tip import BareTip
from infra.keep.repository.page_text import USUAL, PageBounds, Pages, ReportEntry, next_pages
from infra.shared.branches import MAIN
from infra.shared.paths import ARCHIVE, PAGE
from infra.shared.people import Person
from infra.shared.repository.git import Git
from infra.shared.repository.tip import advance, commit_tree, read_file, tree_with, write_file

_ID = "Report"
_LOOKED_BACK = 300


def write_reports(
    git: Git,
    subject: str,
    entries: Sequence[ReportEntry],
    ids: Sequence[str],
    ticks: tuple[str, ...],
    bounds: PageBounds = USUAL,
) -> str:
    """Put these on main's page; gives main's commit then. `git` is the bare repository and says who commits.

    Its message names the ids, by which `reported` knows them. Raises GitError, TipBusy, OSError."""
    message = "\n".join([subject, "", *(f"{_ID}: {id}" for id in ids)])

    def next_commit(seen: str) -> str | None:
        now = Pages(read_file(git, seen, PAGE) or "", read_file(git, seen, ARCHIVE) or "")
        then = next_pages(now, entries, ticks, bounds)
        if then == now:
            return None
        pages = zip((PAGE, ARCHIVE), now, then, strict=True)
        blobs = {path: write_file(git, text) for path, before, text in pages if text != before}
        return commit_tree(git, tree_with(git, seen, blobs), (seen,), message)

    return advance(BareTip(git), next_commit)


def reported(git: Git, person: Person) -> frozenset[str]:
    """The ids of the reports in the last commits of main that this person committed. Raises GitError."""
    return frozenset(said_by(git, person, _ID, f"refs/heads/{MAIN}", _LOOKED_BACK))


def said_by(git: Git, person: Person, trailer: str, ref: str, most: int) -> dict[str, str]:
    """The values of this trailer (git-interpret-trailers(1)) in the last `most` commits of `ref` that this person
    committed, each with the last commit that has it. Raises GitError.

    NUL divides the answer, because no commit can hold it: names and messages must not look like answers."""
    shown = f"--format=%H%x00%ce%x00%(trailers:key={trailer},valueonly,unfold,separator=%x20)%x00"
    fields = git.raw("log", f"--max-count={most}", shown, ref, "--").decode(errors="replace").split("\0")
    commits = list(zip(fields[0::3], fields[1::3], fields[2::3], strict=False))
    return {
        value: id.removeprefix("\n")
        for id, email, values in reversed(commits)
        if email == person.email
        for value in values.split()
    }
