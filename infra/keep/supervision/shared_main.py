"""The shared repository as the watcher sees it over time: where main is, what the PM asks for by a ref, and which
commits have to stay in it. A ref is a small file, so a look asks git only for news: git costs a process."""

from __future__ import annotations

import os
import re

import structlog

from infra.keep.examination import returning
from infra.keep.supervision.decide.events import Event, LaunchFailed, MainSeen, RetryAsked
from infra.keep.supervision.following import brief
from infra.keep.supervision.unchanged import Unchanged
from infra.keep.supervision.versions import version_of
from infra.keep.supervision.withdrawn import Withdrawals
from infra.keep.watcher_file import Version
from infra.shared.branches import MAIN
from infra.shared.control import KNOWN_GOOD, RETRY_REF
from infra.shared.paths import Paths
from infra.shared.repository.durable_refs import update_refs
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.safe_files import Below

_COMMIT = re.compile(rb"[0-9a-f]{40}\n")


class SharedMain:
    """The shared repository of one agent."""

    def __init__(self, places: Paths, log: structlog.stdlib.BoundLogger) -> None:
        self._remote = places.remote
        self._git = Git(places.remote)
        self._withdrawals = Withdrawals(self._git)
        self._log = log
        self._seen = Version()
        self._unchanged = Unchanged(f"{places.remote}/refs/heads/{MAIN}")
        self._kept: tuple[Version, ...] | None = None
        self._retry_seen = False

    def answer(self, reason: str) -> Event:
        """What it holds now, for the launch that `reason` is for."""
        try:
            main = self._main(self._loose() or resolve_commit(self._git, f"refs/heads/{MAIN}"))
            return MainSeen(main, reason, self._withdrawn(main))
        except (GitError, LookupError) as error:
            self._log.error("main.unseen", reason=brief(error))
            return LaunchFailed(MAIN, f"main could not be read: {brief(error)}")

    def look(self) -> list[Event]:
        """What changed; cheap enough to call at every look."""
        if self._unchanged.is_it():
            return self.asked()
        commit = self._loose()
        if commit and commit == self._seen.commit:
            self._unchanged.looked()
        if not commit or commit == self._seen.commit:
            return self.asked()
        try:
            main = self._main(commit)
        except GitError:
            return self.asked()
        return [MainSeen(main, withdrawn=self._withdrawn(main)), *self.asked()]

    def _main(self, commit: str | None) -> Version:
        if not commit:
            raise LookupError(f"{self._remote} has no branch main; push one")
        if commit != self._seen.commit:
            self._seen = version_of(self._git, commit)
        return self._seen

    def _loose(self) -> str:
        """The ref's own file, which a ref that ever moves has."""
        content = Below(self._remote).tail(f"refs/heads/{MAIN}", 64)
        return content[:40].decode() if _COMMIT.fullmatch(content) else ""

    def _withdrawn(self, main: Version) -> tuple[str, ...] | None:
        try:
            return self._withdrawals.look(main)
        except GitError as error:
            self._log.warning("withdrawn.unknown", reason=brief(error))
            return None

    def asked(self) -> list[Event]:
        """That the PM wants pinned versions tried again."""
        if self._retry_seen or not os.path.lexists(f"{self._remote}/{RETRY_REF}"):
            return []
        self._retry_seen = True
        self._log.info("retry.asked")
        return [RetryAsked()]

    def kept(self) -> tuple[Version, ...]:
        """Good versions that an earlier watcher kept here, the latest commit first."""
        shown = "--format=%(refname:lstrip=3) %(objectname)"
        try:
            listed = self._git("for-each-ref", "--sort=-committerdate", shown, KNOWN_GOOD).splitlines()
        except GitError as error:
            self._log.error("known_good.unknown", reason=brief(error))
            return ()
        return tuple(Version(commit=commit, id=id) for id, _, commit in (line.partition(" ") for line in listed))

    def begin(self) -> None:
        """What main goes through from here on was let in by the PM, or examined: the agent may return to it."""
        try:
            returning.begin(self._remote)
        except (GitError, OSError) as error:
            self._log.error("repository.not_settled", reason=brief(error))

    def settle(self, known_good: tuple[Version, ...], retry_decided: bool) -> None:
        """What was decided is remembered: good versions stay in the repository, and what was asked for goes, as each
        request counts once."""
        try:
            if known_good != self._kept:
                self._kept = known_good
                self.keep(known_good)
            if self._retry_seen and retry_decided:
                update_refs(self._git, f"delete {RETRY_REF}")
                self._retry_seen = False
        except (GitError, LookupError, OSError) as error:
            self._log.error("repository.not_settled", reason=brief(error))

    def keep(self, known_good: tuple[Version, ...]) -> None:
        """Have the shared repository keep these commits, whatever becomes of main. Raises GitError, OSError."""
        wanted = {f"{KNOWN_GOOD}/{good.id}": good.commit for good in known_good}
        listed = self._git("for-each-ref", "--format=%(refname) %(objectname)", KNOWN_GOOD).splitlines()
        there = dict(line.split(" ", 1) for line in listed)
        orders = [f"update {ref} {commit}" for ref, commit in wanted.items() if there.get(ref) != commit]
        orders += [f"delete {ref}" for ref in there if ref not in wanted]
        if orders:
            update_refs(self._git, *orders)
