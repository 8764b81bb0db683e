"""What may land: one ref update and what git said about it in, the reason to refuse it out, in the words that
the agent will read. Pure; frozen admits less than propose, and propose less than merge.

The words never say what git says when a push lost a race ("fetch first" and the like): a client that pushes in
a loop would take a refusal for a reason to try again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from infra.keep.folding import folded
from infra.keep.git_door.entries import problem_with_top, shown
from infra.keep.git_door.mind import MIND_REF, MindChange, problem_with_mind
from infra.keep.git_door.pages import Wrong
from infra.keep.git_door.rules import Autonomy, Rules
from infra.keep.git_door.tags import TAGS, problem_with_tag
from infra.keep.protection import protecting
from infra.keep.taint import TRAILER, Taint, refusal_on_main
from infra.keep.verdicts.refs import VerdictStatus
from infra.shared.branches import MAIN, MIND, RESCUE, problem_with_branch
from infra.shared.people import AGENT, WATCHER, Person
from infra.shared.repository.page_text import PAGE, PAGES

MAX_REFS = 50
"""Refs in one push."""
MAX_REFS_THERE = 2_000
"""Branches and tags of the repository: beyond that none is created."""
MAX_COMMITS = 10_000
"""New commits on one ref."""
MAX_PATH_BYTES, MAX_NAME_BYTES = 1000, 255
"""Of a file's path, and of each name in it: what is longer cannot be checked out everywhere."""
MAX_LEAKS_SHOWN = 5
"""Secrets that one refusal names."""

HEADS = "refs/heads/"
MAIN_REF = HEADS + MAIN
LOGS = "logs"


class Commit(NamedTuple):
    id: str
    touched: frozenset[str]
    """Names at the top of the tree that differ from any of its parents."""
    introduced: frozenset[str]
    """Names that are there and differ from all of its parents. A merge introduces nothing that a parent had."""
    author: Person = AGENT
    committer: Person = AGENT


class File(NamedTuple):
    path: str
    """Empty when no commit of the push needs it."""
    size: int


class Leak(NamedTuple):
    """A secret that a push carries; never its value."""

    kind: str
    """In words that fit behind "holds"."""
    place: str
    """In words that fit behind the secret: `in file 'a', line 3`."""
    commit: str = ""
    """The oldest one that holds it; empty when that is not known."""


class MainChange(NamedTuple):
    """What a push changes on main that only a verdict allows."""

    path: str = ""
    """The first such file; empty when there is none."""
    status: VerdictStatus | None = None
    """What the keep's verdict on the new tree says; None when it has none."""
    early: tuple[str, str] | None = None
    """A commit before the last one, by first parents, that changes such a file, and which."""
    branch: str = ""
    """A branch that is at what would be merged."""


class Update(NamedTuple):
    """One ref that a push wants to change, and what git said about it."""

    ref: str
    old: str | None
    """The commit it is at; None for a new ref."""
    new: str | None
    """The commit it would be at; None for a deletion."""
    refs_there: int = 0
    """Branches and tags that the repository would have with all that the push creates."""
    stands_for: str = ""
    """The ref that would be moved in its place, when this one is only another name for it."""
    descends: bool = True
    """`old` is an ancestor of `new`, or there is no `old`."""
    names_commit: bool = True
    new_commits: tuple[Commit, ...] = ()
    """Reachable from `new` and from no ref that is there."""
    changed: tuple[str, ...] = ()
    """Files that differ between `old` and `new`; for a new ref, between main and `new`."""
    present: tuple[str, ...] = ()
    """Those of them that are there at `new`."""
    large_files: tuple[File, ...] = ()
    """What the repository does not have yet and may be too large."""
    leaks: tuple[Leak, ...] = ()
    odd: tuple[str, ...] = ()
    """What is wrong with entries of new trees, with tags and with headers, in the words of `entries`."""
    main_change: MainChange = MainChange()
    """main only."""
    mind: MindChange = MindChange()
    trusting: str = ""
    """A new commit whose message has a line `Trust: …`, which is the PM's to write."""
    wrong_page: Wrong | None = None
    """A commit that changes COMMS.md or its archive."""
    unseen: str = ""
    """Why git's answer is not whole; empty when it is."""


def refusal(update: Update, rules: Rules, taint: Taint | None = None) -> str | None:
    """Why this update may not land, and what to do instead; None when it may."""
    return (
        _problem_with_name(update, rules.protected_branches)
        or _problem_with_move(update)
        or _problem_with_autonomy(update, rules.autonomy)
        or _problem_with_content(update, rules)
        or _problem_with_entries(update)
        or _problem_with_pages(update.wrong_page)
        or _problem_with_main(update, rules.protected_files, taint)
        or problem_with_mind(update.ref, update.changed, update.present, update.mind, taint)
    )


def _problem_with_name(update: Update, protected: Iterable[str]) -> str | None:
    ref = update.ref
    if update.stands_for:
        return f"this is another name for {shown(update.stands_for)}; push to that one"
    if ref.startswith(HEADS):
        return _problem_with_branch(ref.removeprefix(HEADS), protected)
    if ref.startswith(TAGS):
        return problem_with_tag(ref)
    for prefix, words in _CLOSED.items():
        if ref == prefix or (prefix.endswith("/") and ref.startswith(prefix)):
            return words
    return "only branches (refs/heads/<name>) and snapshot tags (refs/tags/snapshot/<name>) are taken; push a branch"


def _problem_with_branch(branch: str, protected: Iterable[str]) -> str | None:
    rescue = RESCUE.rstrip("/")
    if branch == rescue:
        return f"this name would stand in the way of the {RESCUE}… branches; choose another one"
    problem = None if branch == MIND else problem_with_branch(branch)
    if problem:
        return problem
    first = branch.split("/")[0]
    for taken in (MAIN, MIND, rescue):
        # Not every file system tells capital letters from small ones, and a ref is a file.
        if first.casefold() == taken and (first != taken or (taken != rescue and branch != taken)):
            return f"this name is too much like {taken!r}, or stands in its way; choose another one"
    pattern = protecting(protected, branch)
    if pattern:
        return f"this branch is the PM's (protected.branches has {shown(pattern)}); push one of another name"
    return None


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
    if update.old is None and update.refs_there > MAX_REFS_THERE:
        return (
            f"the repository would have {update.refs_there} branches and tags, over the limit of {MAX_REFS_THERE}; "
            "push to a branch that is there, and ask the PM in a report to delete old ones (git branch -D and git tag "
            "-d in the repository)"
        )
    if not update.names_commit:
        return "it would point to something that is not a commit; push a commit"
    if not update.descends:
        return (
            "the push would drop commits that are there, history only grows; bring them in "
            f"(git pull --rebase origin {update.ref.removeprefix(HEADS)}), then push without force"
        )
    return None


def _problem_with_autonomy(update: Update, autonomy: Autonomy) -> str | None:
    if update.ref in (MAIN_REF, MIND_REF) and update.old is None:
        return f"{update.ref.removeprefix(HEADS)} is the PM's to create; push a branch of another name"
    if autonomy is Autonomy.MERGE:
        return None
    frozen = autonomy is Autonomy.FROZEN
    if update.ref == MAIN_REF:
        instead = "keep this until the PM changes that" if frozen else "push a branch and let the PM merge it"
        return f"autonomy is '{autonomy.value}': only the PM moves main; {instead}"
    if frozen and not update.ref.startswith(HEADS + RESCUE):
        return "autonomy is 'frozen': only reports are taken until the PM changes that"
    return None


_AMEND = "(git commit --amend or git rebase), and push again"


def _problem_with_content(update: Update, rules: Rules) -> str | None:
    if update.unseen:
        return f"{update.unseen}; push it in smaller pieces, oldest commits first"
    for commit in update.new_commits:
        if LOGS in commit.introduced and update.ref != MIND_REF:
            return (
                f"commit {commit.id[:12]} adds or changes {LOGS}/, which is never committed; take it out of that "
                f"commit too (git rm -r --cached {LOGS}, then git commit --amend or git rebase), and push again"
            )
    for file in update.large_files:
        if file.size > rules.blob_bytes:
            name = f"file {shown(file.path)}" if file.path else "something that no commit of the push needs"
            over = f"has {file.size} bytes, over the limit of {rules.blob_bytes}"
            return f"{name} {over}; take it out of the commit that adds it {_AMEND}"
    for path in update.present:
        names = path.encode(errors="surrogateescape")
        if len(names) > MAX_PATH_BYTES or max(map(len, names.split(b"/"))) > MAX_NAME_BYTES:
            return (
                f"the path {shown(path)} is too long to be checked out everywhere; use at most {MAX_PATH_BYTES} "
                f"bytes, and {MAX_NAME_BYTES} in each name"
            )
    if update.trusting:
        return f"commit {update.trusting[:12]} has a line '{TRAILER}: …', which only the PM writes; reword it {_AMEND}"
    # The oldest commit first: a rebase that mends it mends those above.
    people = filter(None, map(_problem_with_people, reversed(update.new_commits)))
    return _problem_with_leaks(update.leaks) or next(people, None)


def _problem_with_leaks(leaks: tuple[Leak, ...]) -> str | None:
    if not leaks:
        return None
    words = [
        f"{f'commit {leak.commit[:12]}' if leak.commit else 'the push'} holds {leak.kind} {leak.place}"
        for leak in dict.fromkeys(leaks[:MAX_LEAKS_SHOWN])
    ]
    more = f" (and {len(leaks) - MAX_LEAKS_SHOWN} more)" if len(leaks) > MAX_LEAKS_SHOWN else ""
    return (
        f"{'; '.join(words)}{more}; take it out of every commit of this push (git commit --amend or git rebase), put "
        "words such as 'your-key-here' in its place, and push again; if it is a real one, tell the PM that it was here"
    )


def _problem_with_people(commit: Commit) -> str | None:
    """Git shows the author first, so nobody is the watcher there either; a cherry-picked patch keeps its author."""
    author, id = commit.author, commit.id[:12]
    if WATCHER.email in author.email.casefold() or WATCHER.name in author.name.casefold():
        return (
            f"the author of commit {id} is {_person(author)}, and only the watcher writes in its name; "
            "take the commit over (git commit --amend --reset-author, or a rebase), then push again"
        )
    if commit.committer != AGENT:
        return (
            f"the committer of commit {id} is {_person(commit.committer)}; expected {_person(AGENT)}, as "
            "git is set up here. Commit it again as yourself, without user.*, committer.* or GIT_COMMITTER_* settings "
            f"of your own (git rebase --force-rebase --rebase-merges {id}~ keeps its author), then push"
        )
    return None


def _person(person: Person) -> str:
    return shown(f"{person.name} <{person.email}>")


def _problem_with_entries(update: Update) -> str | None:
    for commit in update.new_commits:
        problem = problem_with_top(commit.introduced)
        if problem:
            return f"in commit {commit.id[:12]} {problem} in that commit too (git rebase), and push again"
    problem = problem_with_top(path for path in update.present if "/" not in path) or next(iter(update.odd), None)
    return f"{problem}; do so in every commit of this push (git rebase), and push again" if problem else None


def _problem_with_pages(wrong: Wrong | None) -> str | None:
    if wrong is None:
        return None
    files = " and ".join(PAGES)
    if not wrong.anchor:
        return f"commit {wrong.commit[:12]} has no ancestor on main, so it may not hold {files}; take them out of it"
    return (
        f"commit {wrong.commit[:12]} changes {files}, which the PM and the keep alone write; you "
        f"report by ending your turn. Take them as {wrong.anchor[:12]} has them (git checkout {wrong.anchor[:12]} -- "
        f"{PAGE}) in that very commit (git commit --amend, or a rebase), and push again"
    )


def _problem_with_main(update: Update, protected: tuple[str, ...], taint: Taint | None) -> str | None:
    if update.ref != MAIN_REF:
        return None
    for path in update.changed:
        pattern = protecting_on_main(protected, path)
        if pattern:
            return (
                f"{shown(path)} is the PM's to change on main (protected.files has {shown(pattern)}); leave it as it "
                "is on main, and propose the change on a branch of its own"
            )
    for path in update.present:
        if is_second_page(path):
            return f"{shown(path)} would be taken for {PAGE} where capital letters count for nothing; rename it"
    change = update.main_change
    return _problem_without_verdict(change) or refusal_on_main(taint, update.changed, change.branch)


def _problem_without_verdict(change: MainChange) -> str | None:
    if change.early:
        commit, path = change.early
        return (
            f"commit {commit[:12]} changes {shown(path)} before the last commit of this push, and main moves over "
            "such a change in one examined step; merge the branch into main with one merge commit"
        )
    if not change.path:
        return None
    which = f"minifram review {change.branch or 'BRANCH'}"
    status = change.status
    if status is None:
        asked = "comes when a branch holding it is bootstrapped"
        if change.branch:
            asked = "is asked for; push again when it has passed"
        changes = f"{shown(change.path)} changes, and the keep has not examined this version"
        return f"{changes}: an examination {asked} ({which})"
    if not status.passed:
        return f"the keep examined this version, and it did not pass: {status.why[:500]}; mend it on the branch"
    if status.needs_word:
        return (
            f"the keep examined this version, and it needs the PM's word: {status.needs_word[0]}; "
            f"the PM decides ({which}), or you take that back on the branch"
        )
    return None


def protecting_on_main(protected: Iterable[str], path: str) -> str | None:
    """The pattern that keeps this file of main for the PM. The pages have a rule of their own, whatever the patterns
    say."""
    return None if path in PAGES else protecting(protected, path)


def is_second_page(path: str) -> bool:
    """Where capital letters count for nothing, this file, or a directory above it, stands in the place of a page."""
    top = path.partition("/")[0]
    return top not in PAGES and folded(top) in {folded(page) for page in PAGES}
