"""What may land on the branch `mind`, beside what holds for every branch: the rules of `mind_rules` over a push."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from infra.keep.git_door import mind_rules
from infra.keep.git_door.mind_rules import MindChange, MindVersion
from infra.keep.git_door.push import HEADS, Push
from infra.keep.git_door.ref_names import MIND_REF
from infra.keep.git_door.rules import Rule, Words, World
from infra.shared.branches import MIND
from infra.shared.refused import TAINTED
from infra.shared.repository.git import Git
from infra.shared.repository.tip import read_file


def rules_for(push: Push) -> Iterator[tuple[str, Rule]]:
    yield "history", _history
    if push.ref == MIND_REF:
        change = functools.cache(lambda: _change(push))
        for id, rule in mind_rules.RULES:
            yield id, functools.partial(lambda rule, push, world: rule(change()), rule)
        yield TAINTED, lambda push, world: mind_rules.tainted(change(), world.taint, world.is_clean)


def _history(push: Push, world: World) -> Iterator[Words]:
    """The mind's history and main's have no commit in common."""
    if push.ref == MIND_REF:
        for root in push.git("rev-list", "--max-parents=0", push.new, f"^{push.old}", "--").split()[:1]:
            yield (
                "",
                f"commit {root[:12]} has a beginning of its own, and the history of {MIND} has one; commit on top of "
                f"origin/{MIND} (git rebase --onto origin/{MIND})",
            )
    elif push.ref.startswith(HEADS) and MIND_REF in push.refs and push.git.ok("merge-base", MIND_REF, push.new):
        yield (
            "",
            f"commit {push.new[:12]} has its history from the branch {MIND!r}, which is pushed to {MIND} alone; "
            "make the commit on a branch that began at main",
        )


def _change(push: Push) -> MindChange:
    return MindChange(list(push.changed), _version(push.git, push.base), _version(push.git, push.new))


def _version(git: Git, commit: str) -> MindVersion:
    listed = git.raw("ls-tree", "-r", "-l", "-z", "--full-tree", commit).decode(errors="surrogateescape")
    lines = (line.partition("\t") for line in filter(None, listed.split("\0")))
    sizes = {path: int(size) for words, _, path in lines if (size := words.split()[3]).isdecimal()}
    return MindVersion(sizes, lambda path: read_file(git, commit, path) or "")
