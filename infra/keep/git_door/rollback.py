"""What the keep itself commits to main: reports, and the rollback that the agent asks for. Always a new commit on top
of what is there, in the bare repository, so that a PM or an agent who pushes meanwhile loses nothing.

The agent's rollback leads to a good version, to a tree that passed its examination, or where nothing that needs one
differs: otherwise it would be a way onto main for what nobody examined."""

from __future__ import annotations

import time

from infra.keep.protection import is_second_page, protecting_on_main
from infra.keep.repository import page
from infra.keep.repository.bare_tip import KNOWN_GOOD, BareTip, rollback_commit
from infra.keep.repository.changed_files import changes
from infra.keep.repository.page_text import USUAL, PageBounds, ReportEntry
from infra.keep.taint import look, problem_with_guarded
from infra.keep.verdicts import refs, trees
from infra.keep.watcher_file import Report
from infra.shared.branches import MAIN
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.changes import Change
from infra.shared.repository.git import Git, TooMuch, resolve_commit
from infra.shared.repository.tip import TreeEntry, advance

_SIGNAL_FILE = "Signal-File"
_LOOK_SECONDS = 30.0
_LOOKED_BACK = 200
_DIFF_BYTES = 32 << 20


def report(places: Paths, *told: Report, bounds: PageBounds = USUAL) -> None:
    """Put reports onto the page in one commit, which names them. Raises GitError, TipBusy, OSError."""
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    entries = [ReportEntry(each.at, each.title, each.text) for each in told]
    git = Git(places.remote, WATCHER)
    page.write_reports(git, f"COMMS: {told[0].title}{more}", entries, [each.id for each in told], (), bounds)


def roll_back(
    places: Paths,
    target: str,
    autonomy: str,
    signal_file: str,
    protected: tuple[str, ...] = (),
    web_taints: bool = True,
) -> str:
    """Give main the tree of `target`; gives the new commit, or the one that this same signal file led to before: a
    watcher that was killed in between must not go back twice. What the git door guards on main stays as it is.

    Raises PermissionError when the agent may not move main, or not to this version, LookupError when `target` names no
    commit, GitError, TipBusy, OSError."""
    if autonomy != "merge":
        raise PermissionError(f"autonomy is {autonomy}: only the PM moves main")
    git = Git(places.remote, WATCHER)
    # The git door takes no commit from others in the watcher's name.
    done = page.said_by(git, WATCHER, _SIGNAL_FILE, f"refs/heads/{MAIN}", _LOOKED_BACK).get(signal_file)
    if done:
        return done
    wanted = resolve_commit(git, target)
    why = f"The tree of {target}; COMMS.md is kept. Requested by the agent."
    message = f"Roll back to {target}\n\n{why}\n\n{_SIGNAL_FILE}: {signal_file}"

    def next_commit(seen: str) -> str:
        made = rollback_commit(git, seen, target, message, _kept(git, seen, wanted, protected) if wanted else None)
        if problem := problem_with_rollback(places, seen, made, wanted or "", web_taints):
            raise PermissionError(problem)
        return made

    return advance(BareTip(git), next_commit)


def problem_with_rollback(places: Paths, seen: str, made: str, target: str, web_taints: bool = True) -> str:
    """Why the agent may not move main from `seen` to `made`, which has the tree of `target`; empty when it may.

    Raises GitError, LookupError."""
    git = Git(places.remote, env={"GIT_DIR": places.remote}).within(_LOOK_SECONDS)
    found = _changes(git, seen, made)
    taint = look(places.var, git, time.time()) if web_taints else None
    if tainted := problem_with_guarded(taint, found):
        return f"{tainted}, so the PM rolls back to it: minifram rollback {target[:12]}"
    change = trees.first_needing(found.values())
    if not change:
        return ""
    # A commit with another page, or another project of the agent's, is the same version.
    versions = git("for-each-ref", "--format=%(objectname)", KNOWN_GOOD).split()
    if any(trees.are_alike(git, good, made) for good in versions):
        return ""
    verdict = refs.find(git, trees.key_of(git, made))
    if verdict and verdict.passed and not verdict.needs_word:
        return ""
    return (
        f"{target[:12]} changes {change!r}; it is no good version, and the keep has no verdict for it. Bootstrap "
        f"a branch that holds it, or ask the PM for minifram rollback {target[:12]}"
    )


def _kept(git: Git, seen: str, wanted: str, protected: tuple[str, ...]) -> dict[str, TreeEntry | None]:
    """How the files stand at `seen` that the git door would not let the agent change as `wanted` has them.

    The target is the agent's to choose, and may be something that the door never let onto main."""
    guarded = {
        path: change
        for path, change in _changes(git.within(_LOOK_SECONDS), seen, wanted).items()
        if protecting_on_main(protected, path) or (change.mode and is_second_page(path))
    }
    stays = {
        path: TreeEntry(change.mode_before, change.id_before) for path, change in guarded.items() if change.mode_before
    }
    # What the target has below a file that stays goes with the directory that the file takes the place of.
    below = tuple(f"{path}/" for path in stays)
    return {path: None for path in guarded if path not in stays and not path.startswith(below)} | stays


def _changes(git: Git, seen: str, target: str) -> dict[str, Change]:
    """Raises GitError, LookupError."""
    try:
        return changes(git.saying_at_most(_DIFF_BYTES), seen, target)
    except TooMuch:
        raise LookupError(f"{target[:12]} has more files than can be looked through; choose another commit") from None
