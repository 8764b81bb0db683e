"""The shared repository as the watcher sees it over time: where main is, which of its versions served well, and what
the PM asks for by a ref. Refs are small files, so git, which costs a process, is asked only for news."""

from __future__ import annotations

import os
import re

import structlog

from infra.keep.code import version_of
from infra.keep.repository.bare_tip import KNOWN_GOOD, RETRY_REF, update_refs
from infra.keep.supervision.decide.events import Event, MainSeen, RetryAsked
from infra.keep.supervision.following import brief
from infra.keep.watcher_file import Version
from infra.shared.branches import MAIN
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.safe_files import Below

LOCK_SECONDS = 30.0
"""git holds a lock for moments: an older one is of a git that was killed, or lost its power."""
_COMMIT = re.compile(rb"[0-9a-f]{40}\n")


class SharedMain:
    """The shared repository of one agent."""

    def __init__(self, remote: str, log: structlog.stdlib.BoundLogger) -> None:
        self._remote = remote
        self._git = Git(remote)
        self._log = log
        self._stamp: object = None
        """Of what was read last."""
        self._failed: object = None
        """Of what could not be read."""
        self._main = Version()
        self._goods: tuple[Version, ...] = ()

    def look(self) -> list[Event]:
        """What changed since the last look; cheap enough for each."""
        asked: list[Event] = [RetryAsked()] if os.path.lexists(f"{self._remote}/{RETRY_REF}") else []
        content = Below(self._remote).tail(f"refs/heads/{MAIN}", 64)
        loose = content[:40].decode() if _COMMIT.fullmatch(content) else ""
        stamp = (loose, _changed(f"{self._remote}/{KNOWN_GOOD}"), _changed(f"{self._remote}/packed-refs"))
        if stamp == self._stamp:
            return asked
        try:
            if commit := loose or resolve_commit(self._git, f"refs/heads/{MAIN}"):
                self._main = self._main if commit == self._main.commit else version_of(self._git, commit)
            self._goods = self._listed()
        except GitError as error:
            if stamp != self._failed:
                self._log.error("main.unseen", reason=brief(error))
            self._failed = stamp
            return asked
        self._stamp = stamp
        return [MainSeen(self._main, self._goods), *asked]

    def _listed(self) -> tuple[Version, ...]:
        """Good versions, the latest commit first. Raises GitError."""
        shown = "--format=%(refname:lstrip=3) %(objectname)"
        lines = self._git("for-each-ref", "--sort=-committerdate", shown, KNOWN_GOOD).splitlines()
        return tuple(Version(commit, id) for id, _, commit in (line.partition(" ") for line in lines))

    def settle(self, goods: tuple[Version, ...], retried: bool = False) -> None:
        """The repository keeps what is good, but nothing that the PM took away meanwhile; a retry that was remembered
        goes, as each request counts once. Nothing is changed before the repository was read."""
        if self._stamp is None:
            return
        new = [f"update {KNOWN_GOOD}/{each.id} {each.commit}" for each in goods if each not in self._goods]
        old = [f"delete {KNOWN_GOOD}/{each.id}" for each in self._goods if each not in goods]
        try:
            if orders := [*old, *new, *([f"delete {RETRY_REF}"] if retried else [])]:
                update_refs(self._git, *orders)
            self._goods = goods
        except (GitError, OSError) as error:
            self._log.error("repository.not_settled", reason=brief(error))

    def remove_stale_locks(self, wall: float) -> None:
        """With one of a git that is gone, no ref can be moved. What cannot be read or removed is left as it is."""
        found = [f"{self._remote}/{name}.lock" for name in ("packed-refs", "HEAD")]
        for directory, _, names in os.walk(f"{self._remote}/refs"):
            found += [f"{directory}/{name}" for name in names if name.endswith(".lock")]  # no branch's name ends so
        for path in found:
            try:
                if abs(wall - os.lstat(path).st_mtime) > LOCK_SECONDS:
                    os.unlink(path)
                    self._log.warning("lock.removed", path=path)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._log.error("lock.not_removed", path=path, reason=str(error))


def _changed(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
