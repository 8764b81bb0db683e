"""Whether the keep has examined what main would move to."""

from __future__ import annotations

from collections.abc import Iterator

from infra.keep.git_door.push import HEADS, MAIN_REF, Push
from infra.keep.git_door.ref_names import MIND_REF, shown
from infra.keep.verdicts import refs, steps
from infra.keep.verdicts.paths import TESTS
from infra.keep.verdicts.refs import VerdictStatus
from infra.keep.verdicts.trees import key_of

EXAMINATION = "examination"


def examined(push: Push, _: object) -> Iterator[tuple[str, str]]:
    """Main moves over a change of what the agent is made of in one step, that the keep has examined."""
    if push.ref != MAIN_REF or not push.old:
        return
    git, new = push.git, push.tip
    between = steps.between(git, push.old, new)[1:]
    is_about_tests = between or any(path.startswith(f"{TESTS}/") for path in push.changed)
    there = steps.names_in_tests(git, push.old) if is_about_tests else frozenset[str]()
    early = steps.last_change(git, push.old, between[0], there) if between else None
    if early:
        yield (
            early.path,
            f"commit {early.commit[:12]} changes {shown(early.path)} before the last commit of this push, and main "
            "moves over such a change in one examined step; merge the branch into main with one merge commit",
        )
        return
    first = steps.first_needing(push.changed.values(), there)
    if not first:
        return
    status = _verdict(push)
    if status is None:
        asked = "is asked for; push again when it has passed"
        if not branch_at(push):
            asked = "comes when a branch holding it is bootstrapped"
        changes = f"{shown(first.path)} changes, and the keep has not examined this version"
        yield first.path, f"{changes}: an examination {asked}"
    elif not status.passed:
        why = f"the keep examined this version, and it did not pass: {status.why[:500]}"
        yield first.path, f"{why}; mend it on the branch"
    elif status.needs_word:
        why = f"the keep examined this version, and it needs the PM's word: {status.needs_word[0]}"
        yield first.path, f"{why}; the PM decides, or you take that back on the branch"


def _verdict(push: Push) -> VerdictStatus | None:
    """A verdict for another main says nothing of what main has got since then, which the push would take away."""
    status = refs.status_of(push.kept, key_of(push.git, push.tip))
    return status if status and push.old and steps.are_alike(push.kept, status.main, push.old) else None


def branch_to_examine(push: Push) -> str:
    """Of a push of main for which the keep has no verdict; empty when no branch holds it."""
    return "" if push.ref != MAIN_REF or _verdict(push) else branch_at(push)


def branch_at(push: Push) -> str:
    """The branch that the new main merges, or that is at it itself; empty when none is."""
    branches = {id: ref for ref, id in push.refs.items() if ref.startswith(HEADS) and ref not in (MAIN_REF, MIND_REF)}
    for commit in reversed(push.git("rev-list", "--parents", "--max-count=1", push.tip).split()):
        if commit in branches:
            return branches[commit].removeprefix(HEADS)
    return ""
