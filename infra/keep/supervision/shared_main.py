"""The shared repository as the watcher sees it over time: where main is, what the PM asks for by a ref, and which
commits are to stay in it."""

from __future__ import annotations

import structlog

from infra.keep.examination import returning
from infra.keep.supervision.decide.events import Event, LaunchFailed, MainSeen, RetryAsked
from infra.keep.supervision.following import brief
from infra.keep.supervision.versions import Mainline
from infra.keep.supervision.withdrawn import Withdrawals
from infra.shared.branches import MAIN
from infra.shared.places import Places
from infra.shared.repository.git import Git, GitError
from infra.shared.watcher_file import Version


class SharedMain:
    """Of one agent."""

    def __init__(self, places: Places, log: structlog.stdlib.BoundLogger, mainline: Mainline | None = None) -> None:
        self._mainline = mainline or Mainline(places)
        self._remote = places.remote
        self._withdrawals = Withdrawals(Git(places.remote))
        self._log = log
        self._kept: tuple[Version, ...] | None = None
        self._retry_seen = False

    def answer(self, reason: str) -> Event:
        """What it holds now, for the launch that `reason` is for."""
        try:
            main = self._mainline.look()
            return MainSeen(main, reason, self._withdrawn(main))
        except (GitError, LookupError) as error:
            self._log.error("main.unseen", reason=brief(error))
            return LaunchFailed(MAIN, f"main could not be read: {brief(error)}")

    def look(self) -> list[Event]:
        """News; cheap enough for every look."""
        moved = self._mainline.moved()
        return [*([MainSeen(moved, withdrawn=self._withdrawn(moved))] if moved else []), *self.asked()]

    def _withdrawn(self, main: Version) -> tuple[str, ...] | None:
        try:
            return self._withdrawals.look(main)
        except GitError as error:
            self._log.warning("withdrawn.unknown", reason=brief(error))
            return None

    def asked(self) -> list[Event]:
        """That the PM wants pinned versions tried again."""
        if self._retry_seen or not self._mainline.retry_asked():
            return []
        self._retry_seen = True
        self._log.info("retry.asked")
        return [RetryAsked()]

    def kept(self) -> tuple[Version, ...]:
        """Good versions that an earlier watcher kept here."""
        try:
            return self._mainline.kept()
        except GitError as error:
            self._log.error("known_good.unknown", reason=brief(error))
            return ()

    def begin(self) -> None:
        """What main goes through from here on was let in by the PM, or examined: the agent may return to it."""
        try:
            returning.begin(self._remote)
        except (GitError, OSError) as error:
            self._log.error("repository.not_settled", reason=brief(error))

    def settle(self, known_good: tuple[Version, ...], retry_decided: bool) -> None:
        """What was decided is remembered: good versions stay in the repository, what was asked for is taken away."""
        try:
            if known_good != self._kept:
                self._kept = known_good
                self._mainline.keep(known_good)
            if self._retry_seen and retry_decided:
                self._mainline.forget_retry()
                self._retry_seen = False
        except (GitError, LookupError, OSError) as error:
            self._log.error("repository.not_settled", reason=brief(error))
