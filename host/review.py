"""What awaits the PM's decision: branches with commits that main lacks, what they change, and what speaks for them.

Reads only. Everything in a branch is the agent's text; so is the evidence, which the agent's own runner wrote into
COMMS.md when the tests of that very commit passed: it says that they ran, not that they are good."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from host.trouble import Trouble
from infra.contract import comms, report_titles
from infra.contract.branches import MAIN, MIND, RESCUE, problem_with_branch
from infra.contract.exit_codes import Exit
from infra.repository.git import Git, resolve_commit
from infra.repository.merge import PAGE
from infra.repository.tip import read_file

VALIDATED, NOT_VALIDATED, NO_EVIDENCE = "validated", "not validated", "no evidence"


class Evidence(NamedTuple):
    """What the reports say about one commit of a branch."""

    verdict: str
    """`validated`, `not validated` or `no evidence`."""
    reports: tuple[str, ...]
    """The whole reports that say so, oldest first."""


class Branch(NamedTuple):
    """A branch that awaits review."""

    name: str
    commit: str
    subject: str
    author: str
    committed_at: int
    """Seconds since the epoch."""
    ahead: int
    """Commits that main lacks."""
    behind: int
    files: tuple[str, ...]
    """What merging would change; COMMS.md stays main's and does not count."""
    verdict: str


class Commit(NamedTuple):
    commit: str
    subject: str
    author: str
    committed_at: int


class Review(NamedTuple):
    """One branch in full."""

    branch: Branch
    main: str
    base: str
    """The newest commit that it shares with main; empty when there is none."""
    commits: tuple[Commit, ...]
    """Oldest first."""
    stat: str
    diff: str
    evidence: Evidence


def awaiting(git: Git) -> list[Branch]:
    """All branches that await review, the newest first."""
    main = main_commit(git)
    page = read_file(git, main, PAGE) or ""
    return [_branch(git, main, name, commit, page) for name, commit in unmerged(git, main)]


def unmerged(git: Git, main: str) -> list[tuple[str, str]]:
    """Name and commit of each branch with commits that main lacks: neither the mind nor what was rescued."""
    listed = git(
        "for-each-ref",
        f"--no-merged={main}",
        "--sort=-committerdate",
        "--format=%(refname:lstrip=2) %(objectname)",
        "refs/heads/",
    )
    pairs = [(line.rpartition(" ")[0], line.rpartition(" ")[2]) for line in listed.splitlines()]
    return [(name, commit) for name, commit in pairs if name not in (MAIN, MIND) and not name.startswith(RESCUE)]


def one(git: Git, name: str) -> Review:
    """One branch with its commits and changes. Raises Trouble when there is no such branch."""
    main = main_commit(git)
    commit = branch_commit(git, name)
    page = read_file(git, main, PAGE) or ""
    branch = _branch(git, main, name, commit, page)
    base = _base(git, main, commit)
    against = base or _empty_tree(git)
    return Review(
        branch=branch,
        main=main,
        base=base,
        commits=tuple(_commits(git, main, commit)),
        stat=_diff(git, "--stat", against, commit),
        diff=_diff(git, "--patch", against, commit),
        evidence=evidence(page, name, commit),
    )


def main_commit(git: Git) -> str:
    commit = resolve_commit(git, f"refs/heads/{MAIN}")
    if commit is None:
        raise Trouble(
            Exit.NOT_FOUND,
            f"the repository {git.directory} has no branch main; push one, or find it: git fsck --lost-found",
        )
    return commit


def branch_commit(git: Git, name: str) -> str:
    """The commit of a branch that the PM named. Raises Trouble."""
    problem = problem_with_branch(name)
    if problem:
        raise Trouble(Exit.USAGE, problem)
    if name == MAIN:
        raise Trouble(Exit.USAGE, "main is what branches are judged against; name another (see 'minifram review')")
    commit = resolve_commit(git, f"refs/heads/{name}")
    if commit is None:
        heads = git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/").splitlines()
        near = difflib.get_close_matches(name, heads, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see 'minifram review' for what there is"
        raise Trouble(Exit.NOT_FOUND, f"there is no branch {name!r} in {git.directory}; {hint}")
    return commit


def evidence(page: str, branch: str, commit: str) -> Evidence:
    """What COMMS.md says about the tests of exactly this commit; the newest word counts."""
    passed = report_titles.validated(branch, commit, "").strip()
    failed = report_titles.not_validated(branch, commit, "").strip()
    verdict, found = NO_EVIDENCE, []
    try:
        reports = comms.reports(page)
    except comms.CommsError:
        reports = []
    for report in reports:
        title = report_title(report)
        if title.startswith((passed, failed)):
            found.append(report)
            verdict = VALIDATED if title.startswith(passed) else NOT_VALIDATED
    return Evidence(verdict, tuple(found))


def report_title(report: str) -> str:
    """The heading of a report without its mark and its time."""
    heading = report.split("\n", 1)[0].removeprefix("### ")
    return heading.partition(" ")[2]


def _branch(git: Git, main: str, name: str, commit: str, page: str) -> Branch:
    counts = git("rev-list", "--left-right", "--count", f"{main}...{commit}").split()
    base = _base(git, main, commit) or _empty_tree(git)
    names = git("diff", "--name-only", "-z", base, commit, "--", ".", f":(exclude,top){PAGE}")
    tip = _commits(git, None, commit, limit=1)[0]
    return Branch(
        name=name,
        commit=commit,
        subject=tip.subject,
        author=tip.author,
        committed_at=tip.committed_at,
        ahead=int(counts[1]),
        behind=int(counts[0]),
        files=tuple(part for part in names.split("\0") if part),
        verdict=evidence(page, name, commit).verdict,
    )


def _commits(git: Git, without: str | None, commit: str, limit: int = 1000) -> list[Commit]:
    """Commits of `commit`'s history that `without`'s lacks, oldest first."""
    limits = [f"--max-count={limit}", *([f"^{without}"] if without else [])]
    # %x00 cannot stand in a commit message, so nothing in one can end a field.
    listed = git("rev-list", "--no-commit-header", "--format=%H%x00%s%x00%an%x00%ct%x00", *limits, commit)
    fields = listed.split("\0")
    rows = [fields[index : index + 4] for index in range(0, len(fields) - 3, 4)]
    return [Commit(sha.strip(), subject, author, int(at)) for sha, subject, author, at in reversed(rows)]


def _base(git: Git, main: str, commit: str) -> str:
    return git("merge-base", main, commit) if git.ok("merge-base", main, commit) else ""


def _empty_tree(git: Git) -> str:
    return git("hash-object", "-t", "tree", "--stdin", stdin=b"")


def _diff(git: Git, form: str, old: str, new: str) -> str:
    return git(
        "diff", "--no-ext-diff", "--no-textconv", "--no-color", "-M", form, old, new, "--", ".", f":(exclude){PAGE}"
    )
