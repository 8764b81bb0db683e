"""The tools `bootstrap` and `rollback`: asking the watcher for another version of the agent.

Nothing may be lost and nothing half done may be launched, so `bootstrap` first looks whether the clone of the
branch is all committed and all pushed. Whether the version is any good is not asked here: it proves that itself."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from infra.cell.actions import ToolResult
from infra.cell.report_titles import verdict_against
from infra.cell.tools.tool import BRIEFLY, Args, SideEffect, Tool, ToolError
from infra.shared.boot import Boot
from infra.shared.branches import MAIN, MIND, problem_with_branch, problem_with_ref
from infra.shared.comms import reports, with_sections
from infra.shared.paths import PAGE
from infra.shared.repository.git import Git, resolve_commit
from infra.shared.repository.git_environment import safe_environment
from infra.shared.repository.tip import read_file
from infra.shared.signals import Signal, SignalName, write_signal

BOOTSTRAP, ROLLBACK = "bootstrap", "rollback"
GIT_SECONDS = 180.0
"""For all git calls of one act."""
TIMEOUT_MS = round((GIT_SECONDS + 10) * 1000)
_SHA = re.compile(r"[0-9a-f]{7,40}(?![^~^])")


class Bootstrap(Args):
    """End this run, and start the agent from another branch's clone, all committed and pushed."""

    branch: str


class Rollback(Args):
    """End this run, and give main the content of a pushed commit, branch or tag, as a new commit."""

    ref: str


def hop_tools(boot: Boot, checkout: Git, preflight: Callable[[], str] = lambda: "") -> tuple[Tool, Tool]:
    """`checkout` is the running one; `preflight` says why the agent must not become another version now."""

    def bootstrap(given: Bootstrap, seconds: float) -> ToolResult:
        git = checkout.within(min(seconds, GIT_SECONDS))
        branch = given.branch
        if problem := problem_with_branch(branch):
            raise ToolError(problem)
        if branch == boot.branch:
            raise ToolError(f"{branch!r} is the running branch; change code on another branch and bootstrap that one")
        if branch == MIND:
            raise ToolError(f"{branch!r} holds no version of the agent; bootstrap a branch of its code")
        tip = _tip(git, branch)
        if branch != MAIN:
            refuse_unless_ready(boot, branch, tip)
            _refuse_what_has_failed(git, branch, tip)
        if problem := preflight():
            raise ToolError(f"{problem}; nothing was started")
        write_signal(boot.places.signals, Signal(SignalName.BOOTSTRAP, branch))
        return ToolResult(f"the watcher will start {branch} at {tip[:12]}; this run ends here", hands_over=True)

    def rollback(given: Rollback, seconds: float) -> ToolResult:
        git = checkout.within(min(seconds, GIT_SECONDS))
        ref = given.ref
        if problem := problem_with_ref(ref):
            raise ToolError(problem)
        if boot.autonomy != "merge":
            raise ToolError(
                f"autonomy is {boot.autonomy}: rolling main back is the PM's to do; say in a report why it is needed"
            )
        commit = _published_commit(git, ref)
        # The commit itself, not the name: by the time it is read, main~1 may be another commit.
        write_signal(boot.places.signals, Signal(SignalName.ROLLBACK, commit))
        words = f"the watcher will give main the content of {commit[:12]}; this run ends here"
        return ToolResult(words, hands_over=True)

    return (
        Tool(BOOTSTRAP, Bootstrap, bootstrap, TIMEOUT_MS, SideEffect.AUTH, BRIEFLY),
        Tool(ROLLBACK, Rollback, rollback, TIMEOUT_MS, SideEffect.AUTH, BRIEFLY),
    )


def _refuse_what_has_failed(git: Git, branch: str, tip: str) -> None:
    """Raises ToolError for a commit of which main's page says that it failed: it would only fail again, and the model
    would be asked again, and so on for as long as there is money."""
    page = read_file(git, f"refs/remotes/origin/{MAIN}", PAGE) or ""
    heading = verdict_against(reports(with_sections(page)), branch, tip)
    if heading:
        raise ToolError(
            f"{branch} at {tip[:12]} has already failed ({heading}); mend it, commit, push, and bootstrap it again, "
            "or end your turn with a report (git commit --allow-empty if only the circumstances have changed)"
        )


def fetch_all(git: Git) -> None:
    git("fetch", "--quiet", "--prune", "--tags", "--force", "origin", "+refs/heads/*:refs/remotes/origin/*")


def _tip(git: Git, branch: str) -> str:
    fetch_all(git)
    tip = resolve_commit(git, f"refs/remotes/origin/{branch}")
    if tip is None:
        raise ToolError(f"origin has no branch {branch!r}; push it first: git push origin {branch}")
    return tip


def refuse_unless_ready(boot: Boot, branch: str, tip: str) -> None:
    """Raises ToolError unless the clone of `branch` holds exactly what is pushed as `tip`. Its origin is not looked at:
    each runner sets its own at its start."""
    import git as gitpython  # costs as much as the rest of a boot, and few runs come here

    checkout = boot.places.checkout(branch)
    if os.path.realpath(checkout) != os.path.join(os.path.realpath(boot.places.bot), branch, "minifram"):
        raise ToolError(f"{checkout} leads elsewhere through a link; make a real clone there")
    try:
        with gitpython.Repo(checkout) as repo:
            repo.git.update_environment(**safe_environment())
            problem = _problem_with_clone(repo, branch, tip)
    except (gitpython.NoSuchPathError, gitpython.InvalidGitRepositoryError):
        how = f"git clone -b {branch} {boot.remote_url} {checkout}"
        raise ToolError(f"no clone at {checkout}; make one: {how}") from None
    except (gitpython.GitError, gitpython.ODBError, ValueError, TypeError, OSError) as error:
        raise ToolError(f"{checkout} is not a sound clone ({error}); move it away and clone {branch} again") from error
    if problem:
        raise ToolError(f"{checkout} {problem}")


def _problem_with_clone(repo: Any, branch: str, tip: str) -> str | None:
    current = "no branch" if repo.head.is_detached else repo.active_branch.name
    if current != branch:
        return f"is on {current}; expected {branch}: git -C {repo.working_dir} checkout {branch}"
    if files := [line[3:] for line in repo.git.status("--porcelain").splitlines()]:
        return (
            f"has uncommitted work ({', '.join(files[:5])}{', …' if len(files) > 5 else ''}); commit and push it first"
        )
    commit = repo.head.commit.hexsha
    if commit != tip:
        return (
            f"is at {commit[:12]}, but origin's {branch} is at {tip[:12]}; "
            f"make them the same first: git pull --rebase && git push origin {branch}"
        )
    return None


def _published_commit(git: Git, ref: str) -> str:
    """The commit that `ref` names on origin: a branch of origin first, then a tag or a commit."""
    fetch_all(git)
    short = ref.removeprefix("origin/")
    commit = resolve_commit(git, f"refs/remotes/origin/{short}") or resolve_commit(git, f"refs/tags/{short}")
    if commit is None and _SHA.match(ref):
        commit = resolve_commit(git, ref)
    if commit is None:
        raise ToolError(f"{ref!r} names no commit on origin; see bash('git log --oneline origin/main')")
    if not git("for-each-ref", "--count=1", "--contains", commit, "refs/remotes/origin", "refs/tags"):
        raise ToolError(f"{ref!r} is {commit[:12]}, which is on no branch of origin; push it first")
    return commit
