"""What main holds, looked at as cheaply as can be: a ref is a small file, and asking git costs a process."""

from __future__ import annotations

import hashlib
import os
import re

from infra.shared.branches import MAIN
from infra.shared.control import GOODS
from infra.shared.places import BODY, VERSION, Places
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.page_text import PAGES
from infra.shared.safe_files import Below
from infra.shared.watcher_file import Version

RETRY_REF = "refs/minifram/retry"
"""Made by the PM, who alone can (`minifram retry`, or a plain push of anything to it): pinned versions may be tried."""
_COMMIT = re.compile(rb"[0-9a-f]{40}\n")


TREE_BYTES = 4 << 20
"""Of a branch's topmost directory, as listed."""


def version_of(git: Git, commit: str) -> Version:
    """The version of a commit of main: what a start can fail for. Raises GitError."""
    listed = git.raw("ls-tree", "-z", "--full-tree", commit, "--", *VERSION)
    body = b"".join(entry for entry in listed.split(b"\0") if entry.rpartition(b"\t")[2].decode() in BODY)
    return Version(commit=commit, id=_id(listed), body=_id(body))


def _id(listed: bytes) -> str:
    return hashlib.sha256(listed).hexdigest()[:16]


def candidate_of(git: Git, commit: str) -> Version:
    """The version of a branch: all that it holds but the pages. A branch fails for itself: main, which may start from
    the same files, is not to be pinned with it. Raises GitError."""
    entries = git.saying_at_most(TREE_BYTES).raw("ls-tree", "-z", "--full-tree", commit).split(b"\0")
    kept = (entry for entry in entries if entry.partition(b"\t")[2].decode(errors="replace") not in PAGES)
    return Version(commit=commit, id="branch-" + _id(b"\0".join(kept)))


class Mainline:
    """Main of the shared repository over time."""

    def __init__(self, places: Places) -> None:
        self._remote = places.remote
        self._seen = Version()

    def look(self) -> Version:
        """What it holds now. Raises GitError, and LookupError when there is no main."""
        commit = self._loose() or resolve_commit(Git(self._remote), f"refs/heads/{MAIN}")
        if not commit:
            raise LookupError(f"{self._remote} has no branch main; push one")
        if commit != self._seen.commit:
            self._seen = version_of(Git(self._remote), commit)
        return self._seen

    def moved(self) -> Version | None:
        """What it holds when that is seen without asking git and is news; never raises."""
        commit = self._loose()
        if not commit or commit == self._seen.commit:
            return None
        try:
            return self.look()
        except (GitError, LookupError):
            return None

    def _loose(self) -> str:
        """The ref's own file, which a ref that ever moves has."""
        content = Below(self._remote).tail(f"refs/heads/{MAIN}", 64)
        return content[:40].decode() if _COMMIT.fullmatch(content) else ""

    def retry_asked(self) -> bool:
        """The PM made the ref."""
        return os.path.lexists(f"{self._remote}/{RETRY_REF}")

    def forget_retry(self) -> None:
        """Each asking counts once. Raises GitError, OSError."""
        update_refs(Git(self._remote), f"delete {RETRY_REF}")

    def keep(self, known_good: tuple[Version, ...]) -> None:
        """Have the shared repository keep these commits, whatever becomes of main. Raises GitError, OSError."""
        git = Git(self._remote)
        wanted = {f"{GOODS}/{good.id}": good.commit for good in known_good}
        there = dict(
            line.split(" ", 1) for line in git("for-each-ref", "--format=%(refname) %(objectname)", GOODS).splitlines()
        )
        orders = [f"update {ref} {commit}" for ref, commit in wanted.items() if there.get(ref) != commit]
        orders += [f"delete {ref}" for ref in there if ref not in wanted]
        if orders:
            update_refs(git, *orders)

    def kept(self) -> tuple[Version, ...]:
        """What `keep` was given, the latest commit first: for a watcher that lost its memory. Raises GitError."""
        shown = "--format=%(refname:lstrip=3) %(objectname)"
        listed = Git(self._remote)("for-each-ref", "--sort=-committerdate", shown, GOODS).splitlines()
        return tuple(Version(commit=commit, id=id) for id, _, commit in (line.partition(" ") for line in listed))
