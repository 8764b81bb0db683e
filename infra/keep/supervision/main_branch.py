"""What the keep itself does to the shared main: append a report, or roll it back. Always a new commit on top of
what is there, in the bare repository, so that a PM or an agent who pushes meanwhile loses nothing."""

from __future__ import annotations

from infra.keep.examination import returning
from infra.keep.protection import is_second_page, protecting_on_main
from infra.keep.repository import page
from infra.keep.supervision.versions import version_of
from infra.keep.supervision.withdrawn import Withdrawals
from infra.keep.watcher_file import Report
from infra.shared.branches import MAIN
from infra.shared.paths import Paths
from infra.shared.people import WATCHER
from infra.shared.repository.changes import changes
from infra.shared.repository.git import Git, GitLimits, TooMuch, resolve_commit
from infra.shared.repository.page_text import USUAL, PageBounds, ReportEntry
from infra.shared.repository.tip import BareTip, TreeEntry, advance, rollback_commit

_SIGNAL_FILE = "Signal-File"
_LOOK_SECONDS = 30.0
_LOOKED_BACK = 200


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
    pardoned: tuple[str, ...] = (),
    web_taints: bool = True,
) -> str:
    """Give main the tree of `target`; gives the new commit, or the one that this same signal file led to before: a
    watcher that was killed in between must not go back twice. What the git door guards on main stays as it is.
    `pardoned`: versions that the PM took back and has allowed again.

    Raises PermissionError when the agent may not move main, or not to this version, LookupError when `target` names no
    commit, GitError, TipBusy, OSError."""
    if autonomy != "merge":
        raise PermissionError(f"autonomy is {autonomy}: only the PM moves main")
    git = Git(places.remote, WATCHER)
    # The git door takes no commit from others in the watcher's name.
    done = page.said_by(git, WATCHER, _SIGNAL_FILE, f"refs/heads/{MAIN}", _LOOKED_BACK).get(signal_file)
    if done:
        return done
    why = f"The tree of {target}; COMMS.md is kept. Requested by the agent."
    message = f"Roll back to {target}\n\n{why}\n\n{_SIGNAL_FILE}: {signal_file}"

    def next_commit(seen: str) -> str:
        made = rollback_commit(git, seen, target, message, _kept(places, seen, target, protected))
        version = version_of(git, made).id
        if version not in pardoned and version in Withdrawals(git).look(version_of(git, seen)):
            raise PermissionError(_TAKEN_BACK)
        problem = returning.problem(places, seen, made, resolve_commit(git, target) or "", web_taints)
        if problem:
            raise PermissionError(problem)
        return made

    return advance(BareTip(git), next_commit)


_TAKEN_BACK = "the PM has rolled back from this version of main, or rejected it, and only the PM gives it back to main"


def _kept(places: Paths, seen: str, target: str, protected: tuple[str, ...]) -> dict[str, TreeEntry | None]:
    """How the files stand at `seen` that the git door would not let the agent change as `target` has them.

    The target is the agent's to choose, and may be something that the door never let onto main."""
    bounds = GitLimits(answer_bytes=32 << 20)
    git = Git(places.remote, env={"GIT_DIR": places.remote}, limits=bounds).within(_LOOK_SECONDS)
    wanted = resolve_commit(git, target)
    if wanted is None:
        return {}
    try:
        found = changes(git, seen, wanted)
    except TooMuch:
        raise LookupError(f"{target!r} has more files than can be looked through; choose another commit") from None
    guarded = {
        path: change
        for path, change in found.items()
        if protecting_on_main(protected, path) or (change.mode and is_second_page(path))
    }
    stays = {
        path: TreeEntry(change.mode_before, change.id_before) for path, change in guarded.items() if change.mode_before
    }
    # What the target has below a file that stays goes with the directory that the file takes the place of.
    below = tuple(f"{path}/" for path in stays)
    return {path: None for path in guarded if path not in stays and not path.startswith(below)} | stays
