"""The PM's acts on the branch of the mind: give it the content of a snapshot. History only grows; by plain git the PM
may edit it like anything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from host.errors import CommandError, conflict, not_found, usage
from infra.shared.branches import MIND
from infra.shared.mind.snapshots import Snapshot, snapshots
from infra.shared.repository.git import Git, resolve_commit
from infra.shared.repository.tip import BareTip, TreeEntry, advance, commit_tree, list_tree, tree_with_entries

REF = f"refs/heads/{MIND}"
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
LIST_SECONDS = 3.0


class MindRestored(NamedTuple):
    snapshot: str
    """As it was named."""
    target: str
    commit: str
    """Where the mind is now; the same as `before` when there was nothing to do."""
    before: str
    changes: tuple[str, ...]
    """`M path`, `A path`, `D path`."""
    undo: str


def mind_commit(git: Git) -> str:
    """Raises CommandError for an agent without a mind."""
    found = resolve_commit(git, REF)
    if found is None:
        raise not_found(f"{git.directory} has no branch {MIND!r}: this agent has no mind; 'minifram up' makes one")
    return found


def restore_mind(git: Git, named: str, paths: Sequence[str], agent_option: str) -> MindRestored:
    """A new commit on the branch with the content of the snapshot, or of these files and directories of it. Raises
    CommandError."""
    mind_commit(git)
    target = _target(git, named)
    wanted = [_path(path) for path in paths]
    for path in wanted:
        if path not in list_tree(git, target, path) and path not in list_tree(git, mind_commit(git), path):
            raise not_found(f"{path!r} is neither in {named} nor in the mind now; see 'git ls-tree -r {target[:12]}'")
    before = ""

    def next_commit(seen: str) -> str | None:
        nonlocal before
        before = seen
        tree = git("rev-parse", f"{target}^{{tree}}")
        if wanted:
            there: dict[str, TreeEntry | None] = {path: list_tree(git, target, path).get(path) for path in wanted}
            tree = tree_with_entries(git, seen, there)
        if tree == git("rev-parse", f"{seen}^{{tree}}"):
            return None
        what = ", ".join(wanted[:5]) if wanted else "The whole mind"
        return commit_tree(git, tree, (seen,), f"Restore {named}\n\n{what}, as at {target[:12]}. Decided by the PM.")

    commit = advance(BareTip(git, MIND), next_commit)
    changes = git.within(LIST_SECONDS)("diff", "--no-renames", "--name-status", before, commit).split("\n")
    undo = f"minifram mind restore {before}{agent_option}" if commit != before else ""
    return MindRestored(named, target, commit, before, tuple(each.replace("\t", " ") for each in changes if each), undo)


def _target(git: Git, named: str) -> str:
    """The commit of a snapshot, or one of the mind's own history. Raises CommandError."""
    there = snapshots(git)
    if found := [each for each in there if each.name == named]:
        return found[0].commit
    if _COMMIT.fullmatch(named) and (commit := resolve_commit(git, named)):
        if git.ok("merge-base", "--is-ancestor", commit, REF) or any(each.commit == commit for each in there):
            return commit
        raise usage(f"{named} is no commit of the mind's history; 'minifram mind snapshots' lists what can be restored")
    alike = [each for each in there if each.name.startswith(named)]
    if len(alike) == 1:
        return alike[0].commit
    raise _unknown(named, alike)


def _unknown(named: str, alike: Sequence[Snapshot]) -> CommandError:
    if alike:
        return conflict(f"{named!r} could be {' or '.join(each.name for each in alike[:5])}; say which")
    return not_found(f"no snapshot {named!r}; 'minifram mind snapshots' lists them")


def _path(given: str) -> str:
    """Below the mind's root, as git has it. Raises CommandError."""
    path = given.removeprefix("/agent/").strip("/")
    if not path or any(part in ("", ".", "..") for part in path.split("/")) or "\0" in path:
        raise usage(f"{given!r} is no path of the mind; give one such as memory/beliefs.md")
    return path
