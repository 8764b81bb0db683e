"""`minifram review`: the branches with commits that main lacks, what they change, and the keep's verdict on what
merging them would make of main.

Everything in a branch is the agent's text. The verdict is the keep's (SPEC_EXAMINATION); what COMMS.md says of tests is
not read."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from host.cli import command
from host.errors import not_found, usage
from host.home import AgentPaths, Context
from host.repository import GIT_SECONDS, main_commit, open_as_pm, open_repository
from host.running import PROCESS, is_running, sandbox_of
from host.screen import Say, Shown, bad, counted, duration, good, harmless_lines, one_line, strong
from infra.shared.branches import MAIN, MIND, problem_with_branch
from infra.shared.exit_codes import Exit
from infra.shared.paths import PAGE
from infra.shared.people import AGENT, WATCHER
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, TooMuch, resolve_commit
from infra.shared.repository.merge import MergeConflict

if TYPE_CHECKING:
    from infra.keep.verdicts.verdict import Verdict

MOST_COMMITS = 1000
PATCH_BYTES = 8 << 20
"""The size up to which all changes are shown as text, also of files that git takes for binary."""
LONGEST_EXAMINATION_SECONDS = 1800.0
POLL_SECONDS = 0.5
PASSED, NEEDS_WORD, NOT_PASSED = "passed", "needs your word", "not passed"
NOT_EXAMINED, FREE, CONFLICT = "not examined", "needs no examination", "conflicts with main"
"""How a branch stands with the keep's examination."""
UNSEALED = (
    "The process sandbox is no wall: the agent can commit under your name and write a verdict itself, so neither "
    "proves anything; only the change does."
)


class Branch(NamedTuple):
    """A branch that awaits review."""

    name: str
    commit: str
    verdict: str
    subject: str
    author: str
    committed_at: int
    ahead: int
    behind: int
    files: tuple[str, ...]
    """What merging would change; COMMS.md stays main's and does not count."""


class Commit(NamedTuple):
    commit: str
    subject: str
    author: str
    committed_at: int


@command
@click.argument("branch", required=False)
@click.option("--stat", is_flag=True, help="Only which files change, not how.")
@click.option("--examine", is_flag=True, help="First have the keep examine the branch, and wait for the verdict.")
def review(context: Context, say: Say, branch: str | None, stat: bool, examine: bool) -> Shown:
    """List the branches that await your decision, or show the commits, the changes and the examination of one.

    The keep of a running agent examines the result of the merge: it rehearses that version and runs the tests. The
    branch's own code runs in both, so a verdict is evidence against honest mistakes, and no more.
    """
    home, now = context.initialised(), time.time()
    if branch is None and examine:
        raise usage("say which branch the keep shall examine: 'minifram review BRANCH --examine'")
    if branch is None:
        return _all(open_repository(home), now)
    from host.trust import taint_of
    from infra.keep.taint import problem_with_guarded

    if examine and (asked := have_examined(home, open_as_pm(context), branch, LONGEST_EXAMINATION_SECONDS, say)):
        return asked
    git = open_repository(home)
    main, commit = main_commit(git), branch_commit(git, branch)
    found, base = _branch(git, main, branch, commit), _base(git, main, commit)
    value: dict[str, Any] = {"branch": found, "main": main, "base": base}
    value["commits"] = _commits(git, commit, f"^{main}")
    value["stat"] = _diff(git, ("--stat",), base or EMPTY_TREE, commit)
    value["diff"] = "" if stat else _patch(git, base or EMPTY_TREE, commit)
    value["examination"] = examination(git, main, commit)[1]
    value["taint"] = problem_with_guarded(taint_of(home, git), found.files)
    advice = _next(found, is_pms_own(git, main, commit), context.agent_words)
    if sandbox_of(home) == PROCESS:
        advice += f"\n{UNSEALED}"
    return Shown(value, _lines(value, now), advice)


def _all(git: Git, now: float) -> Shown:
    main = main_commit(git)
    found = [_branch(git, main, name, commit) for name, commit in unmerged(git, main)]
    advice = "'minifram review BRANCH' shows one; merge or reject it" if found else "no branch awaits review"
    return Shown({"branches": found}, (line for branch in found for line in _branch_lines(branch, now)), advice)


def unmerged(git: Git, main: str) -> list[tuple[str, str]]:
    """Name and commit of each branch with commits that main lacks, the newest first. The mind is none."""
    form = "--format=%(refname:lstrip=2) %(objectname)"
    listed = git("for-each-ref", f"--no-merged={main}", "--sort=-committerdate", form, "refs/heads/")
    # Cut at newlines alone: a ref's name may hold what else Unicode calls the end of a line.
    parts = (line.rpartition(" ") for line in listed.split("\n") if line)
    return [(name, id) for name, _, id in parts if name not in (MAIN, MIND)]


def is_pms_own(git: Git, main: str, commit: str) -> bool:
    """Whether neither agent nor keep committed anything of what main lacks. The door lets the agent push commits in its
    own name alone, and what the watcher saves is the agent's work."""
    committers = git("rev-list", "--no-commit-header", "--format=%ce", commit, f"^{main}").split("\n")
    return not {AGENT.email, WATCHER.email} & {each.lower() for each in committers}


def branch_commit(git: Git, name: str) -> str:
    """The commit of a branch that the PM named. Raises CommandError."""
    if problem := problem_with_branch(name):
        raise usage(problem)
    if name == MAIN:
        raise usage("main is what branches are judged against; name another (see 'minifram review')")
    commit = resolve_commit(git, f"refs/heads/{name}")
    if commit is None:
        raise not_found(f"no such branch: {name!r} in {git.directory}; see 'minifram review' for what there is")
    return commit


def examination(git: Git, main: str, commit: str) -> tuple[str, Verdict | None]:
    """What the keep found about what merging this commit would make of main now: in words, and its verdict."""
    from infra.keep.verdicts import refs, trees

    try:
        with tempfile.TemporaryDirectory(prefix="minifram-review-") as objects:  # for new ones: nothing is written
            there = f"{git.directory}/objects"
            scratch = git.with_env(GIT_OBJECT_DIRECTORY=objects, GIT_ALTERNATE_OBJECT_DIRECTORIES=there)
            verdict = refs.verdict_on(scratch, main, "", commit, trees.merged(scratch, main, commit))
    except MergeConflict:
        return CONFLICT, None
    except GitError as error:  # no common history, or damaged
        if error.is_machines:
            raise
        return NOT_EXAMINED, None
    if verdict is None or verdict.outage:
        return NOT_EXAMINED, verdict
    if not verdict.key:
        return FREE, verdict
    if not verdict.passed:
        return NOT_PASSED, verdict
    return NEEDS_WORD if verdict.needs_word else PASSED, verdict


def have_examined(home: AgentPaths, git: Git, name: str, seconds: float, say: Say) -> Shown | None:
    """Ask the keep by a ref that the watcher reads, and wait until it has dealt with that; None when it has. Raises
    CommandError, GitError."""
    from infra.keep.verdicts import refs

    commit, deadline = branch_commit(git, name), time.monotonic() + seconds
    refs.ask(git, name, commit)
    if is_running(home):
        say(f"asked for an examination of {name}@{commit[:12]}; waiting for the keep (Ctrl-C leaves it asked for)")
    while is_running(home) and time.monotonic() < deadline:
        if (name, commit) not in refs.requests(git.afresh(GIT_SECONDS)):  # the verdict is there before the request goes
            return None
        time.sleep(POLL_SECONDS)
    value, line = {"branch": name, "examination": None}, f"asked   {name}"
    if is_running(home):
        return Shown(value, line, f"no verdict yet; it stays asked for: 'minifram review {name}'", Exit.TRY_AGAIN)
    return Shown(value, line, "the agent is not running; examined at the next start: 'minifram up'", Exit.NOT_RUNNING)


def _branch(git: Git, main: str, name: str, commit: str) -> Branch:
    tip = _commits(git, commit, "--max-count=1")[0]
    behind, ahead = git("rev-list", "--left-right", "--count", f"{main}...{commit}").split()
    base = _base(git, main, commit) or EMPTY_TREE
    names = git("diff", "--name-only", "-z", base, commit, "--", ".", f":(exclude,top){PAGE}").split("\0")
    verdict, files = examination(git, main, commit)[0], tuple(filter(None, names))
    return Branch(name, commit, verdict, tip.subject, tip.author, tip.committed_at, int(ahead), int(behind), files)


def _commits(git: Git, commit: str, *which: str) -> list[Commit]:
    """Commits of `commit`'s history, oldest first."""
    # %x00 cannot stand in a commit message, so nothing in one can end a field.
    form = "--format=%H%x00%s%x00%an%x00%ct%x00"
    fields = git("rev-list", "--no-commit-header", form, f"--max-count={MOST_COMMITS}", *which, commit).split("\0")
    rows = [fields[index : index + 4] for index in range(0, len(fields) - 3, 4)]
    # A commit that git did not make may have no time.
    return [Commit(sha.strip(), subject, author, int(at or 0)) for sha, subject, author, at in reversed(rows)]


def _base(git: Git, main: str, commit: str) -> str:
    return git("merge-base", main, commit) if git.ok("merge-base", main, commit) else ""


def _patch(git: Git, old: str, new: str) -> str:
    """All changes as text: a NUL byte makes a file binary to git, and a shell runs it. Where that is too much, binary
    files are named."""
    try:
        return _diff(git.saying_at_most(PATCH_BYTES), ("--patch", "--text"), old, new)
    except TooMuch:
        return _diff(git, ("--patch",), old, new)


def _diff(git: Git, form: tuple[str, ...], old: str, new: str) -> str:
    # No attributes: the agent writes them, and `-diff` hides changes. Some newer gits read those of HEAD here.
    return git(
        *("-c", f"attr.tree={EMPTY_TREE}"),
        *("diff", "--no-ext-diff", "--no-textconv", "--no-color", "-M", *form, old, new),
        *("--", ".", f":(exclude){PAGE}"),
    )


def _next(branch: Branch, is_own: bool, agent: str) -> str:
    """What the PM can do with it; no command that would be refused."""
    name, at = f"{branch.name}{agent}", f"{branch.name}@{branch.commit[:12]}{agent}"
    reject = f"'minifram reject {name} --because …'"
    if branch.verdict == CONFLICT:
        return f"It conflicts with main: have main merged into it and pushed, or: {reject}"
    if is_own or branch.verdict in (PASSED, NEEDS_WORD, FREE):
        return f"Next: 'minifram merge {at}'   or   {reject}"
    first = f"'minifram review {name} --examine'   or   " if branch.verdict == NOT_EXAMINED else ""
    return f"It is {branch.verdict}. Next: {first}'minifram merge {at} --unexamined'   or   {reject}"


def _branch_lines(branch: Branch, now: float) -> Iterator[str]:
    verdict = good(branch.verdict) if branch.verdict in (PASSED, FREE) else bad(branch.verdict)
    behind = f", {branch.behind} behind" if branch.behind else ""
    yield (
        f"{strong(one_line(branch.name, 200))} @ {branch.commit[:12]} · {counted(branch.ahead, 'commit')} ahead"
        f"{behind} · {counted(len(branch.files), 'file')} · {verdict}"
    )
    yield f"    {one_line(branch.subject)} ({one_line(branch.author, 40)}, {duration(now - branch.committed_at)} ago)"


def _lines(found: dict[str, Any], now: float) -> Iterator[str]:
    yield from _branch_lines(found["branch"], now)
    if not found["base"]:
        yield bad("    it shares no history with main")
    yield f"\n{strong('Commits')}"
    for commit in found["commits"]:
        age = duration(now - commit.committed_at)
        yield f"  {commit.commit[:12]} {one_line(commit.subject)} ({one_line(commit.author, 40)}, {age} ago)"
    yield f"\n{strong('Examination')} (by the keep)"
    for line in _examination_lines(found["examination"]):
        # The branch chooses the names of its tests: none begins a line of its own.
        yield f"  {harmless_lines(line.replace(chr(10), ' '))[0]}"
    if found["taint"]:
        yield f"\n{strong('The web')} (by the keep)"
        yield bad(f"  needs your word: {one_line(found['taint'], 400)}")
    yield f"\n{strong('Changes')} (COMMS.md stays main's, and is left out)"
    yield "\n".join(harmless_lines(found["stat"])) or "  none"
    if found["diff"]:
        yield ""
        yield from map(_coloured, harmless_lines(found["diff"]))


def _examination_lines(verdict: Verdict | None) -> Iterator[str]:
    """What ran, and how it ended."""
    from infra.keep.verdicts.verdict import Counts

    if verdict is None:
        yield "none of what merging would make of main now"
        return
    yield f"{'passed' if verdict.passed else 'not passed'}: {verdict.words}"
    yield f"of {verdict.commit[:12]} on main at {verdict.main[:12]}"
    for run, counts in (("main's tests", verdict.mains), ("the branch's own", verdict.own)):
        if counts != Counts():
            yield f"{run}: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped"
    yield f"test files: {verdict.files}"
    listed = (
        ("needs your word", verdict.needs_word),
        ("fails with main's own code too", verdict.fails_on_main),
        ("passed only when run again, alone", verdict.again),
    )
    yield from (f"{what}: {name}" for what, names in listed for name in names)
    for id, text in verdict.failures.items():
        yield f"failed: {id}"
        yield from (f"    {line}" for line in text.split("\n"))


def _coloured(line: str) -> str:
    if line.startswith(("diff ", "+++", "---", "@@")):
        return strong(line)
    return good(line) if line.startswith("+") else bad(line) if line.startswith(("-", "Binary files ")) else line
