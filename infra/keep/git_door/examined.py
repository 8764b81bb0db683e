"""Whether the keep has examined what main would move to."""

from __future__ import annotations

from collections.abc import Iterator

from infra.keep.git_door.push import MAIN_REF, Push
from infra.keep.git_door.ref_names import shown
from infra.keep.verdicts import refs, trees
from infra.keep.verdicts.verdict import Verdict


def examined(push: Push, _: object) -> Iterator[tuple[str, str]]:
    """Main moves over a change of what the agent is made of to what the keep has examined."""
    if push.ref != MAIN_REF or not push.old:
        return
    first = trees.first_needing(push.changed.values())
    if not first:
        return
    verdict = _verdict(push)
    if verdict is None:
        changes = f"{shown(first)} changes, and the keep has not examined this version"
        yield first, f"{changes}: an examination comes when a branch holding it is bootstrapped"
    elif not verdict.passed:
        why = f"the keep examined this version, and it did not pass: {verdict.why[:500]}"
        yield first, f"{why}; mend it on the branch"
    elif verdict.needs_word:
        why = f"the keep examined this version, and it needs the PM's word: {verdict.needs_word[0]}"
        yield first, f"{why}; the PM decides, or you take that back on the branch"


def _verdict(push: Push) -> Verdict | None:
    """A verdict for another main says nothing of what main has got since then, which the push would take away."""
    found = refs.find(push.kept, trees.key_of(push.git, push.new))
    return found if found and push.old and trees.are_alike(push.kept, found.main, push.old) else None
