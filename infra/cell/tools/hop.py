"""The tools `bootstrap` and `rollback`: asking the watcher for another version of the agent.

Nothing may be lost and nothing half done may be launched, so `bootstrap` asks four questions: is the branch on origin,
is its clone clean, is all of it pushed, and can the agent go on working. The rest is the watcher's."""

from __future__ import annotations

from collections.abc import Callable

from infra.cell.actions import ToolResult
from infra.cell.tools.tool import BRIEFLY, Args, Tool, ToolError
from infra.shared.boot import Boot
from infra.shared.branches import MAIN, problem_with_branch, problem_with_ref
from infra.shared.policy import AUTH
from infra.shared.repository.git import Git, resolve_commit
from infra.shared.repository.git_environment import safe_environment
from infra.shared.signals import Signal, SignalName, write_signal

BOOTSTRAP, ROLLBACK = "bootstrap", "rollback"
GIT_SECONDS = 180.0
"""For all git calls of one act."""
TIMEOUT_MS = round((GIT_SECONDS + 10) * 1000)


class Bootstrap(Args):
    """End this run, and start the agent from another branch's clone, all committed and pushed."""

    branch: str


class Rollback(Args):
    """End this run, and give main the content of a pushed commit, branch or tag, as a new commit."""

    ref: str


def hop_tools(boot: Boot, checkout: Git, preflight: Callable[[], str] = lambda: "") -> tuple[Tool, Tool]:
    """`checkout` is the running one; `preflight` says why the agent must not become another version now."""

    def bootstrap(given: Bootstrap) -> ToolResult:
        git, branch = checkout.within(GIT_SECONDS), given.branch
        if problem := problem_with_branch(branch):
            raise ToolError(problem)
        if branch == boot.branch:
            raise ToolError(f"{branch!r} is the running branch; change code on another branch and bootstrap that one")
        tip = _tip(git, branch)
        if branch != MAIN and (problem := _problem_with_clone(boot, branch, tip)):
            raise ToolError(f"{boot.places.checkout(branch)} {problem}")
        if problem := preflight():
            raise ToolError(f"{problem}; nothing was started")
        write_signal(boot.places.signals, Signal(SignalName.BOOTSTRAP, branch))
        return ToolResult(f"the watcher will start {branch} at {tip[:12]}; this run ends here", hands_over=True)

    def rollback(given: Rollback) -> ToolResult:
        if problem := problem_with_ref(given.ref):
            raise ToolError(problem)
        if boot.autonomy != "merge":
            raise ToolError(
                f"autonomy is {boot.autonomy}: rolling main back is the PM's to do; say in a report why it is needed"
            )
        commit = _published_commit(checkout.within(GIT_SECONDS), given.ref)
        # The commit itself, not the name: by the time it is read, main~1 may be another commit.
        write_signal(boot.places.signals, Signal(SignalName.ROLLBACK, commit))
        words = f"the watcher will give main the content of {commit[:12]}; this run ends here"
        return ToolResult(words, hands_over=True)

    return (
        Tool(BOOTSTRAP, Bootstrap, bootstrap, TIMEOUT_MS, AUTH, BRIEFLY),
        Tool(ROLLBACK, Rollback, rollback, TIMEOUT_MS, AUTH, BRIEFLY),
    )


def fetch_all(git: Git) -> None:
    git("fetch", "--quiet", "--prune", "--tags", "--force", "origin", "+refs/heads/*:refs/remotes/origin/*")


def _tip(git: Git, branch: str) -> str:
    fetch_all(git)
    tip = resolve_commit(git, f"refs/remotes/origin/{branch}")
    if tip is None:
        raise ToolError(f"origin has no branch {branch!r}; push it first: git push origin {branch}")
    return tip


def _problem_with_clone(boot: Boot, branch: str, tip: str) -> str:
    """Why the clone of `branch` is not exactly what is pushed as `tip`, and what to do; empty when it is."""
    import git as gitpython  # costs as much as the rest of a boot, and few runs come here

    checkout = boot.places.checkout(branch)
    try:
        with gitpython.Repo(checkout) as repo:
            repo.git.update_environment(**safe_environment())
            current = "no branch" if repo.head.is_detached else repo.active_branch.name
            if current != branch:
                return f"is on {current}; expected {branch}: git -C {checkout} checkout {branch}"
            if changed := repo.git.status("--porcelain"):
                return f"has uncommitted work ({changed.splitlines()[0][3:]}); commit and push it first"
            commit = repo.head.commit.hexsha
            if commit != tip:
                return (
                    f"is at {commit[:12]}, but origin's {branch} is at {tip[:12]}; "
                    f"make them the same first: git pull --rebase && git push origin {branch}"
                )
    except (gitpython.NoSuchPathError, gitpython.InvalidGitRepositoryError):
        return f"is no clone; make one: git clone -b {branch} {boot.remote_url} {checkout}"
    except (gitpython.GitError, gitpython.ODBError, ValueError, TypeError, OSError) as error:
        return f"is not a sound clone ({error}); move it away and clone {branch} again"
    return ""


def _published_commit(git: Git, ref: str) -> str:
    """The commit that `ref` names: a branch of origin first, whatever a local one of that name says."""
    fetch_all(git)
    commit = resolve_commit(git, f"refs/remotes/origin/{ref.removeprefix('origin/')}") or resolve_commit(git, ref)
    if commit is None:
        raise ToolError(f"{ref!r} names no commit on origin; see bash('git log --oneline origin/main')")
    if not git("for-each-ref", "--count=1", "--contains", commit, "refs/remotes/origin", "refs/tags"):
        raise ToolError(f"{ref!r} is {commit[:12]}, which is on no branch of origin; push it first")
    return commit
