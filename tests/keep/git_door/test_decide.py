"""The decision by itself: over all updates that can be thought of, and the edges that no git push can show."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from infra.keep.git_door.decide import Commit, File, Leak, Update, refusal
from infra.keep.git_door.pages import Wrong
from infra.keep.git_door.rules import Autonomy, Rules
from infra.shared.branches import problem_with_branch
from infra.shared.people import AGENT, WATCHER, Person

LIMIT = 1000
PAGE = "## Directives\n\n## Reports\n"
SHA, OTHER_SHA = "1" * 40, "2" * 40

names = st.sampled_from(["COMMS.md", "logs", "src", "infra", "logs.txt"])
PM = Person("PM", "pm@example.org")
people = st.sampled_from([AGENT, AGENT, AGENT._replace(name="Agent"), PM, WATCHER, Person("X", WATCHER.email.title())])
commits = st.builds(
    lambda touched, introduced, *people: Commit(SHA, touched | introduced, introduced, *people),
    st.frozensets(names, max_size=2),
    st.frozensets(names, max_size=2),
    people,
    people,
)
histories = st.lists(commits, min_size=1, max_size=3).map(tuple)
words = st.text("abZ09._+/-@ ", min_size=1, max_size=12)
good_refs = st.sampled_from(
    [
        *("refs/heads/main", "refs/heads/main", "refs/heads/mind", "refs/heads/work"),
        *("refs/heads/rescue/1", "refs/tags/snapshot/1"),
    ]
)
prefixes = st.sampled_from(["refs/heads/", "refs/tags/", "refs/tags/snapshot/", "refs/minifram/", "refs/", ""])
other_refs = st.one_of(
    st.sampled_from(
        ["refs/heads/rescue", "refs/heads/minifram", "HEAD", "refs/heads/", "refs/notes/x", "refs/replace/x"]
    ),
    st.builds("".join, st.tuples(prefixes, words)),
    st.text(max_size=20),
)
pages = st.sampled_from([None, "", PAGE, "## Directives\n", "## Reports\n", "# Reports\n\n# Directives\n"])
paths = st.sampled_from(
    [
        "COMMS.md",
        "comms.MD",
        "Comms.md/x",
        "infra/runner.py",
        "INFRA/x",
        "infra",
        "infrared",
        "a.lock",
        "x" * 256,
        "a/" * 500 + "a",
    ]
)
odd: dict[str, st.SearchStrategy[Any]] = {
    "ref": other_refs,
    "new": st.none(),
    "refs_there": st.sampled_from([2000, 2001]),
    "descends": st.just(False),
    "names_commit": st.just(False),
    "new_commits": histories,
    "large_files": st.lists(st.builds(File, words, st.integers(0, 2 * LIMIT)), min_size=1, max_size=2).map(tuple),
    "wrong_page": st.sampled_from([None, Wrong(SHA, OTHER_SHA), Wrong(SHA, "")]),
    "stands_for": st.just("refs/heads/main"),
    "changed": st.lists(paths, min_size=1, max_size=3).map(tuple),
    "present": st.lists(paths, min_size=1, max_size=3).map(tuple),
    "leaks": st.just((Leak("a key", "in 'a', line 1", SHA),)),
    "unseen": st.just("too much"),
}


@st.composite
def some_updates(draw: st.DrawFn) -> Update:
    """Updates that are nearly as they should be: few are wrong in more than two ways."""
    old = draw(st.sampled_from([None, SHA]))
    update = Update(draw(good_refs), old, OTHER_SHA)
    wrong = draw(st.lists(st.sampled_from(sorted(odd)), unique=True, max_size=3))
    return update._replace(**{name: draw(odd[name]) for name in wrong})


updates = some_updates()
autonomies = st.sampled_from(Autonomy)


def rules_of(autonomy: Autonomy) -> Rules:
    return Rules(autonomy, LIMIT, ("infra/", "*.lock"), ("pm/*", "work9*"), True)


def admitted(update: Update, autonomy: Autonomy) -> bool:
    return refusal(update, rules_of(autonomy)) is None


@given(updates, autonomies)
def test_nothing_outside_the_allowed_shape_is_admitted(update: Update, autonomy: Autonomy) -> None:
    """Whatever is admitted keeps each rule, told here once more in other words."""
    if not admitted(update, autonomy):
        return
    kind, _, name = update.ref.removeprefix("refs/").partition("/")
    assert kind in ("heads", "tags")
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+/-]*", name)
    if kind == "heads":
        assert name == "mind" or problem_with_branch(name) is None
    else:
        assert name.startswith("snapshot/")
        assert update.old is None
    assert update.new is not None
    assert update.names_commit
    assert update.descends
    assert not update.unseen
    assert update.old is not None or update.refs_there <= 2000
    assert all("logs" not in commit.introduced for commit in update.new_commits)
    assert all("watcher" not in " ".join(commit.author).lower() for commit in update.new_commits)
    assert all(commit.committer == AGENT for commit in update.new_commits)
    assert all(file.size <= LIMIT for file in update.large_files)
    if name.startswith("rescue/"):
        assert update.old is None
    assert not update.stands_for
    assert not update.leaks
    assert not name.startswith(("pm/", "work9"))
    assert all(len(path) <= 1000 and all(len(part) <= 255 for part in path.split("/")) for path in update.present)
    if name == "main":
        assert update.old is not None
        assert not {"infra/runner.py", "INFRA/x", "infra", "a.lock"} & set(update.changed)
        assert not {"comms.MD", "Comms.md/x"} & set(update.present)
    assert update.wrong_page is None
    if name == "main":
        assert autonomy is Autonomy.MERGE
    if autonomy is Autonomy.FROZEN:
        assert name.startswith("rescue/")


@given(updates)
@example(Update("refs/heads/main", SHA, OTHER_SHA))
@example(Update("refs/heads/rescue/1", None, OTHER_SHA))
@example(Update("refs/heads/work", SHA, OTHER_SHA))
def test_less_autonomy_admits_less(update: Update) -> None:
    """What frozen admits propose admits, and what propose admits merge admits."""
    frozen, propose, merge = (admitted(update, each) for each in (Autonomy.FROZEN, Autonomy.PROPOSE, Autonomy.MERGE))
    assert frozen <= propose <= merge


@pytest.mark.parametrize("autonomy", Autonomy)
def test_each_autonomy_admits_something(autonomy: Autonomy) -> None:
    """The properties above do not hold for want of anything admitted."""
    work = (Commit(OTHER_SHA, frozenset({"src"}), frozenset({"src"})),)
    free = autonomy is Autonomy.MERGE
    assert admitted(Update("refs/heads/main", SHA, OTHER_SHA, new_commits=work), autonomy) == free
    assert admitted(Update("refs/heads/rescue/1", None, OTHER_SHA, new_commits=work), autonomy)
    not_frozen = autonomy is not Autonomy.FROZEN
    for ref in ("refs/heads/mind", "refs/heads/work"):
        assert admitted(Update(ref, SHA, OTHER_SHA, new_commits=work), autonomy) == not_frozen


@given(updates, autonomies)
def test_a_refusal_is_one_line_and_no_lost_race(update: Update, autonomy: Autonomy) -> None:
    """Whoever pushes again and again until a race is won must not take the door's words for a lost race."""
    why = refusal(update, rules_of(autonomy))
    if why is None:
        return
    assert why.isprintable()
    for phrase in ("non-fast-forward", "fetch first", "cannot lock ref", "failed to update ref", "stale info"):
        assert phrase not in why


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("HEAD", "which branch is the first is the PM's to say"),
        ("refs/heads/", "a branch name is empty"),
        ("refs/minifram/", "the keep's own records"),
        ("refs/minifram", "only branches"),
        ("refs/headsup", "only branches"),
        ("", "only branches"),
        ("refs/tags/snapshot/", "the only tags are snapshots"),
        ("refs/tags/snapshot/-x", "the only tags are snapshots"),
        ("refs/tags/snapshot/x\n", "the only tags are snapshots"),
        ("refs/tags/snapshot/daily/2026-01-31T10-42-12Z", "the keep alone makes them"),
        ("refs/tags/snapshot/Weekly", "the keep alone makes them"),
        ("refs/tags/snapshot/pre-modification./1", "the keep alone makes them"),
    ],
)
def test_names_that_git_itself_would_stop(ref: str, words: str) -> None:
    """The rule for names does not lean on git's own."""
    assert words in (refusal(Update(ref, None, SHA), rules_of(Autonomy.MERGE)) or "")


def test_a_merge_brings_in_only_what_no_parent_had() -> None:
    """`logs` that a parent had already was let in by the PM."""
    merge = Commit(SHA, touched=frozenset({"logs", "src"}), introduced=frozenset())
    assert admitted(Update("refs/heads/work", SHA, OTHER_SHA, new_commits=(merge,)), Autonomy.MERGE)
    own = merge._replace(introduced=frozenset({"logs"}))
    assert not admitted(Update("refs/heads/work", SHA, OTHER_SHA, new_commits=(own,)), Autonomy.MERGE)
