"""What awaits the PM's decision: branches with commits that main lacks, what they change, and how the keep's
examination of what merging them would make of main has ended.

Reads only. Everything in a branch is the agent's text. The verdict is the keep's (SPEC_EXAMINATION); what COMMS.md says
of tests is not read."""

from __future__ import annotations

import difflib
import re
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from host.errors import not_found, usage
from host.repository.taint import of_branch
from infra.shared import comms
from infra.shared.branches import MAIN, MIND, RESCUE, problem_with_branch
from infra.shared.people import AGENT, WATCHER
from infra.shared.repository.git import CANNOT_START, EMPTY_TREE, Git, GitError, resolve_commit
from infra.shared.repository.merge import MergeConflict
from infra.shared.repository.page_text import PAGE
from infra.shared.repository.tip import file_at, read_file
from infra.shared.taint.machine import UNTAINTED, TaintState

if TYPE_CHECKING:
    from infra.shared.verdicts.verdict import Verdict

FORM = "--format=%(refname:lstrip=2) %(objectname)"
MOST_RESCUED = 20
BRANCH_SECONDS = 3.0
"""For what a list says about one branch: none may take the time of the others."""

PAGE_BYTES = 4 << 20
"""Of COMMS.md: more is not a page for people, and a model reads no more either."""
_SECTION = re.compile(r"^#{1,2}[ \t]+(?:directives|reports)[ \t#]*$", re.IGNORECASE | re.MULTILINE)
MOST_READ = 64 << 20
"""Beyond that it is not read into memory at all."""

BINARY_BYTES = 64 << 10
"""A file that git takes for binary is shown as text up to this size."""
MOST_PATHS = 100
"""On git's command line."""

PASSED, NEEDS_WORD, NOT_PASSED = "passed", "needs your word", "not passed"
NOT_EXAMINED, CONFLICT = "not examined", "conflicts with main"
"""How a branch stands with the keep's examination."""


class Examination(NamedTuple):
    status: str
    verdict: Verdict | None = None
    """None when there is none for what merging would make of main now."""


class Branch(NamedTuple):
    """A branch that awaits review."""

    name: str
    commit: str
    verdict: str
    """One of the statuses above."""
    subject: str = ""
    author: str = ""
    committed_at: int = 0
    """Seconds since the epoch."""
    ahead: int = 0
    """Commits that main lacks."""
    behind: int = 0
    files: tuple[str, ...] = ()
    """What merging would change; COMMS.md stays main's and does not count."""
    unseen: str = ""
    """Why not all of this, or of its changes, could be found out; empty when it could. A branch can be made so."""


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
    examination: Verdict | None
    """None when the keep has not examined it."""
    taint: tuple[str, ...] = ()
    """What of it came by work that had read the web, and needs the PM's word for that."""


def awaiting(git: Git) -> list[Branch]:
    """All branches that await review, the newest first."""
    main = main_commit(git)
    found = unmerged(git, main)
    return [_branch(git, main, name, commit, examination(git, main, commit).status) for name, commit in found]


def unmerged(git: Git, main: str) -> list[tuple[str, str]]:
    """Name and commit of each branch with commits that main lacks: neither the mind nor what was rescued."""
    listed = git("for-each-ref", f"--no-merged={main}", "--sort=-committerdate", FORM, "refs/heads/")
    # Cut at newlines alone: a ref's name may hold what else Unicode calls the end of a line.
    parts = (line.rpartition(" ") for line in listed.split("\n") if line)
    return [(name, id) for name, _, id in parts if name not in (MAIN, MIND) and not name.startswith(RESCUE)]


def rescued(git: Git, main: str) -> list[tuple[str, int]]:
    """The branches to which the watcher saved work that was never pushed, the newest first: name, and commits that
    neither main nor another branch has."""
    listed = git("for-each-ref", f"--no-merged={main}", "--sort=-committerdate", FORM, f"refs/heads/{RESCUE}")
    names = [line.rpartition(" ")[0] for line in listed.split("\n") if line][:MOST_RESCUED]
    git = git.within(BRANCH_SECONDS)
    others = ("--not", f"--exclude={RESCUE}*", "--branches")
    counts = {name: int(git("rev-list", "--count", f"refs/heads/{name}", *others)) for name in names}
    return [(name, count) for name, count in counts.items() if count]


def is_pms_own(git: Git, main: str, commit: str) -> bool:
    """Whether neither agent nor keep committed anything of what main lacks. The door lets the agent push commits in its
    own name alone, and what the watcher saves is the agent's work."""
    try:
        words = ("rev-list", "--no-commit-header", "--format=%ce", commit, f"^{main}")
        committers = git.within(BRANCH_SECONDS)(*words).split("\n")
    except GitError:  # too large, or damaged, and shown as that
        return False
    return not {AGENT.email, WATCHER.email} & {each.lower() for each in committers}


def one(git: Git, name: str, taint: TaintState = UNTAINTED) -> Review:
    """One branch with its commits and changes. Raises CommandError when there is no such branch."""
    main = main_commit(git)
    commit = branch_commit(git, name)
    examined = examination(git, main, commit)
    branch = _branch(git, main, name, commit, examined.status)
    base, stat, diff = "", "", ""
    commits: tuple[Commit, ...] = ()
    if not branch.unseen:
        try:
            base = _base(git, main, commit)
            commits = tuple(_commits(git, main, commit))
            against = base or EMPTY_TREE
            stat, diff = _diff(git, ("--stat",), against, commit), _patch(git, against, commit)
        except GitError as error:
            branch = branch._replace(unseen=_why(error))
    tainted = of_branch(taint, {commit, *(each.commit for each in commits)}, branch.files)
    return Review(branch, main, base, commits, stat, diff, examined.verdict, tainted)


def page_at(git: Git, commit: str) -> str:
    """COMMS.md of a commit; empty when there is none. Of one that is too long for people its beginning, where the
    directives are, and its end, where the newest reports are."""
    entry = file_at(git, commit, PAGE)
    size = int(git("cat-file", "-s", entry.id)) if entry else 0
    page = (read_file(git, commit, PAGE) or "") if size <= MOST_READ else ""
    return page if size <= PAGE_BYTES else _ends_of(page)


def _ends_of(page: str) -> str:
    """Its two ends, cut at lines, with the heading that the second one stands under, and with both sections."""
    half = PAGE_BYTES // 2
    end = page.rfind("\n", 0, half) + 1
    start = max(end, len(page) - half)
    start += len(page[start:].partition("\n")[0]) + 1
    headings = _SECTION.findall(page, end, start)
    return comms.with_sections("\n".join([page[:end], *headings[-1:], page[start:]]))


def main_commit(git: Git) -> str:
    commit = resolve_commit(git, f"refs/heads/{MAIN}")
    if commit is None:
        raise not_found(
            f"the repository {git.directory} has no branch main; push one, or find it: git fsck --lost-found"
        )
    return commit


def branch_commit(git: Git, name: str) -> str:
    """The commit of a branch that the PM named. Raises CommandError."""
    if problem := problem_with_branch(name):
        raise usage(problem)
    if name == MAIN:
        raise usage("main is what branches are judged against; name another (see 'minifram review')")
    commit = resolve_commit(git, f"refs/heads/{name}")
    if commit is None:
        heads = git("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads/").split("\n")
        near = difflib.get_close_matches(name, heads, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "see 'minifram review' for what there is"
        raise not_found(f"no such branch: {name!r} in {git.directory}; {hint}")
    return commit


def examination(git: Git, main: str, commit: str) -> Examination:
    """The keep's verdict on what merging this commit would make of main now; not examined, when that cannot be told."""
    from infra.shared.verdicts import records, trees  # slow to load, and most commands do without

    git = git.within(BRANCH_SECONDS)
    try:
        with tempfile.TemporaryDirectory(prefix="minifram-review-") as objects:  # for new ones: nothing is written
            there = f"{git.directory}/objects"
            scratch = git.with_env(GIT_OBJECT_DIRECTORY=objects, GIT_ALTERNATE_OBJECT_DIRECTORIES=there)
            key = trees.key_of(scratch, trees.merged(scratch, main, commit))
        verdict = records.find(git, key)
    except MergeConflict:
        return Examination(CONFLICT)
    except GitError as error:
        _why(error)
        return Examination(NOT_EXAMINED)
    if verdict is None or verdict.outage:
        return Examination(NOT_EXAMINED, verdict)
    if not verdict.passed:
        return Examination(NOT_PASSED, verdict)
    return Examination(NEEDS_WORD if verdict.needs_word else PASSED, verdict)


def _branch(git: Git, main: str, name: str, commit: str, status: str) -> Branch:
    """What can be said about a branch in a few seconds."""
    branch = Branch(name, commit, status)
    git = git.within(BRANCH_SECONDS)
    try:
        tip = _commits(git, None, commit, limit=1)[0]
        branch = branch._replace(subject=tip.subject, author=tip.author, committed_at=tip.committed_at)
        behind, ahead = git("rev-list", "--left-right", "--count", f"{main}...{commit}").split()
        branch = branch._replace(ahead=int(ahead), behind=int(behind))
        base = _base(git, main, commit) or EMPTY_TREE
        names = git("diff", "--name-only", "-z", base, commit, "--", ".", f":(exclude,top){PAGE}")
    except GitError as error:
        return branch._replace(unseen=_why(error))
    return branch._replace(files=tuple(part for part in names.split("\0") if part))


def _why(error: GitError) -> str:
    if error.status == CANNOT_START:
        raise error
    return f"{error}; the branch is too large, or made to be, or damaged"


def _commits(git: Git, without: str | None, commit: str, limit: int = 1000) -> list[Commit]:
    """Commits of `commit`'s history that `without`'s lacks, oldest first."""
    limits = [f"--max-count={limit}", *([f"^{without}"] if without else [])]
    # %x00 cannot stand in a commit message, so nothing in one can end a field.
    listed = git("rev-list", "--no-commit-header", "--format=%H%x00%s%x00%an%x00%ct%x00", *limits, commit)
    fields = listed.split("\0")
    rows = [fields[index : index + 4] for index in range(0, len(fields) - 3, 4)]
    # A commit that git did not make may have no time.
    return [Commit(sha.strip(), subject, author, int(at or 0)) for sha, subject, author, at in reversed(rows)]


def _base(git: Git, main: str, commit: str) -> str:
    return git("merge-base", main, commit) if git.ok("merge-base", main, commit) else ""


def _patch(git: Git, old: str, new: str) -> str:
    """All changes as text; only large files that git takes for binary are just named. A NUL byte makes a file binary to
    git, and a shell runs it."""
    large = _large_binaries(git, old, new)
    if len(large) > MOST_PATHS:
        return _diff(git, ("--patch",), old, new)
    text = _diff(git, ("--patch", "--text"), old, new, *(f":(exclude,literal){path}" for path in large))
    if not large:
        return text
    named = _diff(git, ("--patch",), old, new, paths=[f":(literal){path}" for path in large])
    return "\n".join(filter(None, (text, named)))


def _large_binaries(git: Git, old: str, new: str) -> list[str]:
    found = _diff(git, ("--raw", "--numstat", "--no-abbrev", "--no-renames", "-z"), old, new).split("\0")
    ids: dict[str, list[str]] = {}
    binary = []
    fields = iter(found)
    for field in fields:
        if field.startswith(":"):
            ids[next(fields)] = [id for id in field.split()[2:4] if id.strip("0")]
        elif field.startswith("-\t-\t"):
            binary.append(field.removeprefix("-\t-\t"))
    asked = [(path, id) for path in binary for id in ids.get(path, ())]
    sizes = git("cat-file", "--batch-check=%(objectsize)", stdin="".join(f"{id}\n" for _, id in asked).encode())
    large = {
        path
        for (path, _), size in zip(asked, sizes.split("\n"), strict=False)
        if not (size.isdecimal() and int(size) <= BINARY_BYTES)
    }
    return [path for path in binary if path in large]


def _diff(git: Git, form: tuple[str, ...], old: str, new: str, *but: str, paths: Sequence[str] = (".",)) -> str:
    # No attributes: the agent writes them, and `-diff` hides changes. Some newer gits read those of HEAD here.
    return git(
        *("-c", f"attr.tree={EMPTY_TREE}"),
        *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "-M", *form, old, new),
        *("--", *paths, f":(exclude){PAGE}", *but),
    )
