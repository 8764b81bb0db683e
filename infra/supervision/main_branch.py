"""What the keep itself does to the shared main: append a report, or roll it back. Always a new commit on top of
what is there, in the bare repository, so that a PM or an agent who pushes meanwhile loses nothing."""

from __future__ import annotations

from infra.contract import comms
from infra.contract.places import Places
from infra.repository.git import WATCHER, Git
from infra.repository.merge import PAGE
from infra.repository.tip import BareTip, advance, edit_file, rollback_commit


def report(places: Places, title: str, text: str, at: str) -> None:
    """Append a report to COMMS.md. Raises GitError, TipBusy, OSError."""
    git = Git(places.remote, WATCHER)

    def edit(document: str) -> str:
        return comms.add_report(comms.with_sections(document), title, text, at)

    advance(BareTip(git), edit_file(git, PAGE, edit, f"COMMS: {title}"))


def roll_back(places: Places, target: str, autonomy: str) -> str:
    """Give main the tree of `target`; gives the new commit.

    Raises PermissionError when the agent may not move main, LookupError when `target` names no commit, GitError,
    TipBusy, OSError."""
    if autonomy != "merge":
        raise PermissionError(f"autonomy is {autonomy}: only the PM moves main")
    git = Git(places.remote, WATCHER)
    message = f"Roll back to {target}\n\nThe tree of {target}; COMMS.md is kept. Asked for by the agent."
    return advance(BareTip(git), lambda seen: rollback_commit(git, seen, target, message))
