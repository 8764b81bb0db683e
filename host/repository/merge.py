"""What the PM decides about branches and versions: merge, reject, roll back. History only grows, and each act says
how to undo it with plain words.

A branch is judged at one commit: when it moves meanwhile, nothing happens to what the PM has not seen."""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from host.errors import conflict, denied, not_found, usage
from host.repository import review
from host.repository.comms import AlreadyTold, add_directive
from infra.shared.branches import MAIN, problem_with_branch, problem_with_ref
from infra.shared.control import REJECTED
from infra.shared.repository.changes import changes_beyond_page
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.merge import MergeConflict, merge_commit
from infra.shared.repository.tip import BareTip, advance, resolve_object, rollback_commit

_SHORTENED, _HEX = re.compile(r"[0-9a-f]{7,40}"), re.compile(r"[0-9A-Fa-f]{4,40}")
_FULL_ID = 40
LIST_SECONDS = 3.0
"""For listing what has changed, after the deed."""


class Merged(NamedTuple):
    branch: str
    branch_commit: str
    commit: str
    """Where main is now."""
    main_before: str
    """The same as `commit` when there was nothing to merge."""
    verdict: str
    files: tuple[str, ...]
    undo: str
    unseen: str = ""
    """Why the files cannot be listed, though main has moved; empty when they are."""


class Rejected(NamedTuple):
    branch: str
    branch_commit: str
    kept_as: str
    directive_commit: str
    undo: str


class RolledBack(NamedTuple):
    ref: str
    target: str
    commit: str
    """Where main is now; the same as `main_before` when there was nothing to do."""
    main_before: str
    changes: tuple[str, ...]
    """`M path`, `A path`, `D path`."""
    undo: str
    unseen: str = ""
    """As in `Merged`."""


def merge_branch(git: Git, named: str, unexamined: bool, agent_option: str) -> Merged:
    """Merge `BRANCH@COMMIT` into main. Raises CommandError: a conflict, a branch that has moved, or a commit that
    the keep has not examined, or not passed."""
    name, reviewed = branch_and_commit(named, agent_option)
    commit = review.branch_commit(git, name)
    if not commit.startswith(reviewed):
        raise conflict(
            f"{name} is at {commit[:12]} now, not at {reviewed[:12]}; nothing was merged. "
            f"Look what it holds now: 'minifram review {name}'"
        )
    seen_last = review.main_commit(git)
    if git.ok("merge-base", "--is-ancestor", commit, seen_last):
        return Merged(name, commit, seen_last, seen_last, "", (), "")
    found = review.examination(git, seen_last, commit)
    may = (review.PASSED, review.NEEDS_WORD, review.CONFLICT)
    if found.status not in may and not unexamined and not review.is_pms_own(git, seen_last, commit):
        why = f": {found.verdict.why}" if found.verdict else ""
        raise denied(
            f"{name}@{commit[:12]} is {found.status}{why[:500]}. 'minifram examine {name}' has the "
            f"keep examine it, 'minifram review {name}' shows it; if you want it anyway, add "
            "--unexamined"
        )
    main_before = ""

    def next_commit(seen: str) -> str | None:
        nonlocal main_before
        main_before = seen
        return merge_commit(git, seen, commit, f"Merge branch {name} at {commit[:12]}\n\nDecided by the PM.")

    try:
        moved = advance(BareTip(git), next_commit)
    except MergeConflict as found_both:
        both = ", ".join(found_both.files)
        raise conflict(
            f"{name} and main both changed {both}; main is as it was. Ask the agent to merge main into {name} "
            f"and push it, or do it in a clone: git clone {shlex.quote(git.directory)}"
        ) from None
    undo = f"minifram rollback {main_before}{agent_option}"
    files, unseen = _changed(git, main_before, moved, "--name-only")
    return Merged(name, commit, moved, main_before, found.status, files, undo, unseen)


def branch_and_commit(named: str, agent_option: str) -> tuple[str, str]:
    """What `BRANCH@COMMIT` names. Raises CommandError."""
    name, at, commit = named.rpartition("@")
    problem = problem_with_branch(name if at else named)
    if problem:
        raise usage(problem)
    if not at or not _SHORTENED.fullmatch(commit):
        name = name if at else named
        raise usage(
            f"say which commit of {name} you have reviewed, so that no other is merged: "
            f"'minifram review {name}' ends with the whole command"
        )
    return name, commit


def reject_branch(git: Git, name: str, because: str) -> Rejected:
    """Take a branch away, keep its commit, tell the agent. Raises CommandError when the branch moved meanwhile."""
    commit = review.branch_commit(git, name)
    kept_as = f"{REJECTED}/{name}/{commit[:12]}"
    try:
        update_refs(git, f"update {kept_as} {commit}", f"delete refs/heads/{name} {commit}")
    except GitError as error:
        now = resolve_commit(git, f"refs/heads/{name}") if error.status is not None else commit
        if now == commit:
            raise
        found = f"it is at {now[:12]}" if now else "it is gone"
        raise conflict(
            f"{name} was at {commit[:12]}, and now {found} ({error.stderr.strip()}); "
            f"nothing was rejected: see 'minifram review {name}'"
        ) from None
    reason = f": {because.strip()}" if because.strip() else "."
    words = (
        f"Branch {name} at {commit[:12]} is rejected{reason}\nDo not merge it or push it again as it is; "
        f"remove its clone. The commit is kept as {kept_as}."
    )
    undo = f"git -C {shlex.quote(git.directory)} update-ref refs/heads/{name} {commit}"
    try:
        directive = add_directive(git, words).commit
    except AlreadyTold:  # rejected before, and pushed again: the open directive says it all
        directive = review.main_commit(git)
    except Exception as error:
        error.add_note(f"the branch {name} was rejected, but the agent was not told; undo: {undo}")
        raise
    return Rejected(name, commit, kept_as, directive, undo)


def roll_back(git: Git, ref: str, agent_option: str) -> RolledBack:
    """Give main the tree of `ref`, COMMS.md kept, as a new commit. Raises CommandError for what names no version."""
    if problem := problem_with_ref(ref):
        raise usage(problem)
    # Once: `main~1` must not come to mean another commit when a race is lost.
    target = named_commit(git, ref)
    if target is None:
        raise not_found(
            f"{ref!r} names no commit in {git.directory}; see 'git -C {shlex.quote(git.directory)} log --oneline --all'"
        )
    if resolve_object(git, f"{target}:infra/runner.py") is None:
        raise denied(
            f"{ref} ({target[:12]}) has no infra/runner.py, so it is not a version of the agent and cannot be started. "
            "Name a commit of main's history"
        )
    main_before = review.main_commit(git)

    def next_commit(seen: str) -> str | None:
        nonlocal main_before
        main_before = seen
        if not changes_beyond_page(git, seen, target):
            return None
        message = f"Roll back to {target[:12]}\n\nThe tree of {ref}; COMMS.md is kept. Decided by the PM."
        return rollback_commit(git, seen, target, message)

    commit = advance(BareTip(git), next_commit)
    changes, unseen = _changed(git, main_before, commit, "--name-status")
    undo = f"minifram rollback {main_before}{agent_option}" if commit != main_before else ""
    return RolledBack(ref, target, commit, main_before, changes, undo, unseen)


def named_commit(git: Git, ref: str) -> str | None:
    """The commit that `ref` means to a person; None when there is none. Raises CommandError when it could be several.

    git itself would prefer a branch to the commit whose shortened id is the branch's name: the agent could push one
    named like the commit that the PM is about to return to."""
    name = re.split("[~^]", ref, maxsplit=1)[0]
    steps = ref.removeprefix(name)
    if name == "HEAD":  # of a clone of main, where the PM stands; the bare repository has no place of its own
        return resolve_commit(git, f"refs/heads/{MAIN}{steps}")
    if len(name) == _FULL_ID and _HEX.fullmatch(name):
        return resolve_commit(git, ref)
    names = [f"refs/heads/{name}", f"refs/tags/{name}", f"refs/{name}", *([name] if name.startswith("refs/") else [])]
    if _HEX.fullmatch(name):
        names += git("rev-parse", f"--disambiguate={name}").split()
    found = {each: commit for each in names if (commit := resolve_commit(git, f"{each}{steps}"))}
    if len(set(found.values())) > 1:
        meant = " or ".join(f"{each}{steps} ({commit[:12]})" for each, commit in found.items())
        raise conflict(f"{ref!r} could be {meant}; nothing was done, say which by its full name or id")
    return next(iter(found.values()), None)


def _changed(git: Git, old: str, new: str, form: str) -> tuple[tuple[str, ...], str]:
    """The files that differ, and why they cannot be listed: main has moved."""
    try:
        listed = git.within(LIST_SECONDS)("diff", "--no-renames", form, old, new)
    except GitError as error:
        return (), str(error)
    return tuple(line.replace("\t", " ") for line in listed.split("\n") if line), ""
