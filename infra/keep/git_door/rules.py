"""What may land: a ref of a push and what the keep knows of the world in, every reason to refuse it out, in the words
that the agent will read. Frozen admits less than propose, and propose less than merge.

The words never say what git says when a push lost a race ("fetch first" and the like): a client that pushes in a loop
would take a refusal for a reason to try again. They name what the agent can do, and no command of the PM's."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from infra.keep import taint
from infra.keep.folding import folded
from infra.keep.git_door.examined import examined
from infra.keep.git_door.push import GITLINK, HEADS, LIMITS, MAIN_REF, Push, TooLarge
from infra.keep.git_door.ref_names import MIND_REF, problem_with_name, shown
from infra.keep.protection import is_second_page, protecting_on_main
from infra.keep.repository.main_pages import PagesDiffer, anchor_of
from infra.keep.settings.schema import Settings
from infra.keep.taint import TRAILER, Taint
from infra.shared.paths import PAGE, PAGES
from infra.shared.people import AGENT, WATCHER, Person
from infra.shared.refused import TAINTED, Refused
from infra.shared.repository.changes import Change
from infra.shared.repository.git import EMPTY_TREE, TooMuch

MAX_REFS_THERE = 2_000
"""Branches of the repository: beyond that none is created."""
MAX_SHOWN, MAX_SHOWN_OF_MIND = 5, 500
"""Refusals of one rule for one ref; of the mind the runner puts back each path that is named."""


class World(NamedTuple):
    """What is judged by, beside the push."""

    settings: Settings
    refs_there: int
    """Branches with all that the push creates."""
    taint: Taint | None
    is_clean: Callable[[str], bool]
    """Whether an event of the keep's log is a note that no page can have put into its run (`notes`)."""


Words = tuple[str, str]
"""A path, or nothing, and why."""
Rule = Callable[[Push, World], Iterable[Words]]


def refusals(push: Push, world: World, more: Iterable[tuple[str, Rule]] = ()) -> tuple[Refused, ...]:
    """Every reason why this ref may not move so; none when it may. What a ref is called and where it would go come
    first, alone: with an answer to that there is nothing else to ask. `more`: rules of the mind. Raises GitError,
    ValueError."""
    most = MAX_SHOWN_OF_MIND if push.ref == MIND_REF else MAX_SHOWN
    try:
        for rules in (_FIRST, (*_RULES, *more)):
            found = tuple(
                Refused(id, push.ref, path, why)
                for id, rule in rules
                for path, why in itertools.islice(rule(push, world), most)
            )
            if found:
                return found
    except (TooMuch, TooLarge) as error:
        unseen = f"what it brings takes git over {LIMITS.answer_bytes >> 20} MiB to describe"
        why = str(error) if isinstance(error, TooLarge) else unseen
        return (Refused("size", push.ref, "", f"{why}; push it in smaller pieces, oldest commits first"),)
    return ()


def _name(push: Push, world: World) -> Iterator[Words]:
    problem = problem_with_name(push.ref, world.settings.protected.branches)
    if problem:
        yield "", problem
    elif push.stands_for:
        yield "", f"this is another name for {shown(push.stands_for)}; push to that one"


def _move(push: Push, world: World) -> Iterator[Words]:
    if not push.new:
        yield "", "nothing is deleted here, history only grows; leave it, the PM removes what is merged or rejected"
    elif push.ref in (MAIN_REF, MIND_REF) and push.old is None:
        yield "", f"{push.ref.removeprefix(HEADS)} is the PM's to create; push a branch of another name"
    elif push.old is None and world.refs_there > MAX_REFS_THERE:
        yield (
            "",
            f"the repository would have {world.refs_there} branches, over the limit of {MAX_REFS_THERE}; "
            "push to a branch that is there, and ask the PM in a report to delete old ones",
        )
    elif push.old is not None and not push.comes_from(push.old):
        yield (
            "",
            "the push would drop commits that are there, history only grows; bring them in "
            f"(git pull --rebase origin {push.ref.removeprefix(HEADS)}), then push without force",
        )


def _autonomy(push: Push, world: World) -> Iterator[Words]:
    autonomy = world.settings.autonomy
    frozen = autonomy == "frozen"
    if autonomy == "merge":
        return
    elif push.ref == MAIN_REF:
        instead = "keep this until the PM changes that" if frozen else "push a branch and let the PM merge it"
        yield "", f"autonomy is '{autonomy}': only the PM moves main; {instead}"
    elif frozen:
        yield "", "autonomy is 'frozen': only reports are taken until the PM changes that"


class PathRule(NamedTuple):
    id: str
    holds: Callable[[Push, Change], bool]
    words: str
    """With `{path}` and `{where}`, and what to do next."""


_AMEND = "(git commit --amend or git rebase), and push again"
_EVERY = "do so in every commit of this push (git rebase), and push again"
_NEVER_AT_TOP = (".gitmodules", ".mailmap")
"""Neither is needed here, and each changes what the PM's git shows or fetches."""

PATHS = (
    PathRule(
        "submodule",
        lambda push, change: change.mode == GITLINK,
        "{path} is a submodule, whose files are in no commit here; commit the files themselves (git rm --cached, "
        f"remove its .git directory, git add); {_EVERY}",
    ),
    PathRule(
        "top",
        lambda push, change: folded(change.path) in _NEVER_AT_TOP,
        f"{{where}}{{path}} is not taken at the top of the repository; remove it; {_EVERY}",
    ),
    PathRule(
        "logs",
        lambda push, change: push.ref != MIND_REF and change.path.split("/")[0] == "logs",
        "{where}adds or changes logs/, which is never committed; take it out of that commit too (git rm -r --cached "
        "logs, then git commit --amend or git rebase), and push again",
    ),
    PathRule(
        "page",
        lambda push, change: push.ref == MAIN_REF and is_second_page(change.path),
        f"{{path}} would be taken for {PAGE} where capital letters count for nothing; rename it",
    ),
)
"""Of what is there afterwards, in each commit and in what the ref comes to."""


def _path_rule(rule: PathRule, push: Push, world: World) -> Iterator[Words]:
    told = set[str]()
    brought = ((f"commit {commit.id[:12]} ", each) for commit in push.commits for each in commit.changes)
    # What another branch has already is in no commit of the push; logs of the PM's may be merged.
    final = (("", change) for change in push.changed.values() if rule.id != "logs")
    for where, change in itertools.chain(brought, final):
        if change.mode and change.path not in told and rule.holds(push, change):
            told.add(change.path)
            yield change.path, rule.words.format(path=shown(change.path), where=where)


def _sizes(push: Push, world: World) -> Iterator[Words]:
    for path, size in push.large:
        over = f"has {size} bytes, over the limit of {world.settings.limits.blob_bytes}"
        yield path, f"file {shown(path)} {over}; take it out of the commit that adds it {_AMEND}"


def _secrets(push: Push, world: World) -> Iterator[Words]:
    for each in push.found:
        where = f"commit {each.commit[:12]}" if each.commit else "the push"
        yield (
            each.path,
            f"{where} holds {each.kind} {each.place}; take it out of every commit of this push (git commit --amend or "
            "git rebase), put words such as 'your-key-here' in its place, and push again; if it is a real one, tell "
            "the PM that it was here",
        )


def _people(push: Push, world: World) -> Iterator[Words]:
    """Git shows the author first, so nobody is the watcher there either; a cherry-picked patch keeps its author."""
    for commit in push.commits:
        author, id = commit.author, commit.id[:12]
        if WATCHER.email in author.email.casefold() or WATCHER.name in author.name.casefold():
            yield (
                "",
                f"the author of commit {id} is {_person(author)}, and only the watcher writes in its name; take the "
                "commit over (git commit --amend --reset-author, or a rebase), then push again",
            )
        if commit.committer != AGENT:
            yield (
                "",
                f"the committer of commit {id} is {_person(commit.committer)}; expected {_person(AGENT)}, as git is "
                "set up here. Commit it again as yourself, without user.*, committer.* or GIT_COMMITTER_* settings of "
                f"your own (git rebase --force-rebase --rebase-merges {id}~ keeps its author), then push",
            )


def _person(person: Person) -> str:
    return shown(f"{person.name} <{person.email}>")


def _trust(push: Push, world: World) -> Iterator[Words]:
    for id, text in push.texts.items():
        if _TRUST.search(text):
            yield "", f"commit {id[:12]} has a line '{TRAILER}: …', which only the PM writes; reword it {_AMEND}"


_TRUST = re.compile(rf"^\s*{TRAILER}\s*:".encode(), re.IGNORECASE | re.MULTILINE)


def _pages(push: Push, world: World) -> Iterator[Words]:
    """On every ref both are as in its newest ancestor on main, so that whoever merges it keeps main's. It is not
    enough that main once held such a page: an old page on top of a new main would bring back what the PM took out."""
    try:
        is_above = push.main and (push.main == push.old or push.comes_from(push.main))
        anchor = push.main if is_above else anchor_of(push.git, push.main, push.new) if push.main else ""
    except PagesDiffer as error:
        yield PAGE, str(error)
        return
    if anchor == push.base:
        is_alike = not any(path.split("/")[0] in PAGES for path in push.changed)
    else:
        is_alike = push.git.ok("diff-tree", "--quiet", anchor or EMPTY_TREE, push.new, "--", *PAGES)
    if is_alike:
        return
    files = " and ".join(PAGES)
    if not anchor:
        yield PAGE, f"the branch has no ancestor on main, so it may not hold {files}; take them out of it"
        return
    yield (
        PAGE,
        f"it changes {files}, which the PM and the keep alone write; you report by ending your turn. Take them as "
        f"{anchor[:12]} has them (git checkout {anchor[:12]} -- {PAGE}), and push again",
    )


def _protected(push: Push, world: World) -> Iterator[Words]:
    for path in push.changed if push.ref == MAIN_REF else ():
        pattern = protecting_on_main(world.settings.protected.files, path)
        if pattern:
            yield (
                path,
                f"{shown(path)} is the PM's to change on main (protected.files has {shown(pattern)}); leave it as it "
                "is on main, and propose the change on a branch of its own",
            )


def _tainted(push: Push, world: World) -> Iterator[Words]:
    words = taint.refusal_on_main(world.taint, push.changed) if push.ref == MAIN_REF else None
    if words:
        yield "", words


_FIRST: tuple[tuple[str, Rule], ...] = (("name", _name), ("move", _move))
_RULES: tuple[tuple[str, Rule], ...] = (
    ("autonomy", _autonomy),
    *((rule.id, functools.partial(_path_rule, rule)) for rule in PATHS),
    ("size", _sizes),
    ("secret", _secrets),
    ("people", _people),
    ("trust", _trust),
    ("page", _pages),
    ("protected", _protected),
    (TAINTED, _tainted),
    ("examination", examined),
)
