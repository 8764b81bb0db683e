"""What may land: one ref update and what git said about it in, the reason to refuse it out, in the words that
the agent will read. Pure; frozen admits less than propose, and propose less than merge.

The words never say what git says when a push lost a race ("fetch first" and the like): whoever pushes in a loop
would take a refusal for a reason to try again."""

from __future__ import annotations

import re
from typing import NamedTuple

from infra.admission.rules import Autonomy, Rules
from infra.contract import comms
from infra.contract.branches import MAIN, MIND, RESCUE, problem_with_branch

MAX_REFS = 50
"""Refs in one push."""
MAX_COMMITS = 10_000
"""New commits on one ref."""

HEADS, TAGS, SNAPSHOTS = "refs/heads/", "refs/tags/", "refs/tags/snapshot/"
MAIN_REF = HEADS + MAIN
PAGE, LOGS = "COMMS.md", "logs"


class Commit(NamedTuple):
    id: str
    touched: frozenset[str]
    """Names at the top of the tree that differ from any of its parents."""
    introduced: frozenset[str]
    """Names that are there and differ from all of its parents. A merge introduces nothing that a parent had."""


class File(NamedTuple):
    path: str
    size: int


class Update(NamedTuple):
    """One ref that a push wants to change, and what git said about it."""

    ref: str
    old: str | None
    """The commit it is at; None when it is to be created."""
    new: str | None
    """The commit it is to be at; None when it is to be deleted."""
    descends: bool = True
    """`old` is an ancestor of `new`, or there is no `old`."""
    names_commit: bool = True
    new_commits: tuple[Commit, ...] = ()
    """Reachable from `new` and from no ref that is there."""
    moved_over: tuple[Commit, ...] = ()
    """main only, unless autonomy is merge: all from `old` to `new`, also those that other branches have already."""
    large_files: tuple[File, ...] = ()
    """What the repository does not have yet and may be too large."""
    page_before: str | None = None
    """main only: COMMS.md at `old`."""
    page_after: str | None = None
    """main only: COMMS.md at `new`; None as well when it is no regular file."""
    unseen: str = ""
    """Why git's answer is not whole; empty when it is."""


def refusal(update: Update, rules: Rules) -> str | None:
    """Why this update may not land, and what to do instead; None when it may."""
    return (
        _problem_with_name(update.ref)
        or _problem_with_move(update)
        or _problem_with_autonomy(update, rules.autonomy)
        or _problem_with_content(update, rules)
        or _problem_with_page(update)
    )


def _problem_with_name(ref: str) -> str | None:
    if ref.startswith(HEADS):
        branch = ref.removeprefix(HEADS)
        if branch == RESCUE.rstrip("/"):
            return f"this name would stand in the way of the {RESCUE}… branches; choose another one"
        return None if branch == MIND else problem_with_branch(branch)
    if ref.startswith(TAGS):
        if _SNAPSHOT.fullmatch(ref):
            return None
        return "the only tags are snapshots: push it as refs/tags/snapshot/<name>, letters, digits and . _ + / -"
    for prefix, words in _CLOSED.items():
        if ref == prefix or (prefix.endswith("/") and ref.startswith(prefix)):
            return words
    return "only branches (refs/heads/<name>) and snapshot tags (refs/tags/snapshot/<name>) are taken; push a branch"


_SNAPSHOT = re.compile(rf"{SNAPSHOTS}[A-Za-z0-9][A-Za-z0-9._+/-]{{0,199}}")
_CLOSED = {
    "HEAD": "which branch is the first is the PM's to say; push a branch by its name",
    "refs/minifram/": "these refs are the keep's own records; push a branch instead",
    "refs/replace/": "a replaced object would show the PM another history than there is; make a new commit instead",
    "refs/notes/": "notes are not taken; write it into the commit's message, a file, or a report in COMMS.md",
}


def _problem_with_move(update: Update) -> str | None:
    if update.new is None:
        return "nothing is deleted here, history only grows; leave it, the PM removes what is merged or rejected"
    if update.old is not None and update.ref.startswith(TAGS):
        return "a snapshot stays where it is; give the new one another name"
    if update.old is not None and update.ref.startswith(HEADS + RESCUE):
        return f"a rescue branch is written once; push to a new name under {RESCUE}"
    if not update.names_commit:
        return "it would point to something that is no commit; push a commit"
    if not update.descends:
        return (
            "the push would drop commits that are there, history only grows; bring them in "
            f"(git pull --rebase origin {update.ref.removeprefix(HEADS)}), then push without force"
        )
    return None


def _problem_with_autonomy(update: Update, autonomy: Autonomy) -> str | None:
    if autonomy is Autonomy.MERGE:
        return None
    frozen = autonomy is Autonomy.FROZEN
    if update.ref != MAIN_REF:
        if frozen and not update.ref.startswith(HEADS + RESCUE):
            return f"autonomy is 'frozen': only reports, in {PAGE} on main, are taken until the PM changes that"
        return None
    if update.old is None:
        return f"autonomy is '{autonomy.value}': main is the PM's to create; push a branch of another name"
    for commit in update.moved_over:
        beyond = sorted(commit.touched - {PAGE})
        if beyond:
            instead = "keep the rest until the PM changes that" if frozen else "push a branch and let the PM merge it"
            return (
                f"autonomy is '{autonomy.value}': on main you may change {PAGE} alone, and commit {commit.id[:12]} "
                f"changes {_shown(beyond[0])}; {instead}"
            )
    return None


def _problem_with_content(update: Update, rules: Rules) -> str | None:
    if update.unseen:
        return f"{update.unseen}; push it in smaller pieces, oldest commits first"
    for commit in update.new_commits:
        if LOGS in commit.introduced:
            return (
                f"commit {commit.id[:12]} adds or changes {LOGS}/, which is never committed; take it out of that "
                f"commit too (git rm -r --cached {LOGS}, then git commit --amend or git rebase), and push again"
            )
    for file in update.large_files:
        if file.size > rules.blob_bytes:
            return (
                f"file {_shown(file.path)} has {file.size} bytes, over the limit of {rules.blob_bytes}; take it out "
                "of the commit that adds it (git commit --amend or git rebase), and push again"
            )
    return None


def _problem_with_page(update: Update) -> str | None:
    if update.ref != MAIN_REF:
        return None
    before, after = update.page_before, update.page_after
    if after is None:
        meant = any(PAGE in commit.introduced for commit in (*update.new_commits, *update.moved_over))
        if before is None and not meant:
            return None
        return f"{PAGE} of main, where the PM and you talk, must stay a file; put it back and push again"
    for section in (comms.DIRECTIVES, comms.REPORTS):
        if before and _has_section(before, section) and not _has_section(after, section):
            return f"the push would take the section '## {section}' out of main's {PAGE}; put it back and push again"
    return None


def _has_section(document: str, section: str) -> bool:
    try:
        comms.section_text(document, section)
    except comms.CommsError:
        return False
    return True


def _shown(path: str) -> str:
    return repr(path if len(path) <= 200 else path[:199] + "…")
