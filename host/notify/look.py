"""Looks at the keep's records from the host. Each is read again only when it changed; none is the agent's to write."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from host.display import Say
from host.errors import CommandError
from host.notify import records
from host.notify.events import Fact, Seen, Sight
from host.notify.spending import Spending
from host.paths import AgentPaths
from host.repository import approvals, review
from host.repository.open import GIT_SECONDS, open_repository
from host.running.record import PODMAN, sandbox_in_use
from host.running.watcher import holder, is_locked, known_state
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.comms import CommsError
from infra.shared.known_secrets import read_known
from infra.shared.people import AGENT
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.page_text import PAGE
from infra.shared.safe_files import Below, opened_file
from infra.shared.settings import BudgetSettings

REFUSAL, REFUSAL_BYTES = "refused.json", 64 << 10
LOG_BYTES = 256 << 10
MOST_COMMITS = 100
"""Of main's history in one look; the next one goes on from there."""
_PROBLEMS = (OSError, ValueError, LookupError, GitError, CommandError)

Stamp = tuple[object, ...]


class _Read(NamedTuple):
    stamp: Stamp
    facts: tuple[Fact, ...]


History = Callable[[Git, str, str], list[tuple[str, str, str]]]
"""What main became since a commit, as `commits_since` reads it. Raises GitError."""


class Looker:
    """The records of one agent. `look` never raises for what it could not read: it tells that it is unread."""

    def __init__(self, home: AgentPaths, budget: BudgetSettings, say: Say, commits: History | None = None) -> None:
        self._commits = commits or commits_since
        self._home, self._places = home, home.places
        self._spending = Spending(home.places.ledger, budget)
        self._read: dict[str, _Read] = {}
        self._main: tuple[Stamp, str] = ((), "")
        self._say = say
        self._problems: dict[str, str] = {}
        """By source, why it could not be read."""

    def begin(self) -> Seen:
        """What history and logs hold so far is no news; what holds now will be. Raises CommandError, GitError."""
        logged = (fact.key for fact in self._of_log(()))
        return Seen(review.main_commit(open_repository(self._home)), tuple(logged))

    def look(self, seen: Seen, now: float) -> Sight:
        unread: list[str] = []
        main, facts = seen.main, list[Fact]()

        def source(name: str, stamp: Stamp, read: Callable[[], Iterable[Fact]]) -> None:
            try:
                if name not in self._read or self._read[name].stamp != stamp:
                    self._read[name] = _Read(stamp, tuple(read()))
                facts.extend(self._read[name].facts)
                self._problems.pop(name, None)
            except _PROBLEMS as error:
                self._read.pop(name, None)
                unread.append(name)
                self._complain(name, error)

        known = self._known()
        runs, switching = self._runs(), os.path.lexists(self._home.switch_file)
        refs = (_stamp(f"{self._home.remote}/refs/heads/{MAIN}"), _stamp(f"{self._home.remote}/packed-refs"))
        day = time.strftime("%Y-%m-%d", time.gmtime(now))
        state, log = self._places.watcher_state, self._places.watcher_log
        source("watcher", (_stamp(state), runs, switching), lambda: self._of_watcher(runs, switching, known))
        source("refusal", (_stamp(f"{self._places.var}/{REFUSAL}"),), lambda: self._of_refusal(known))
        source("log", (_stamp(log), _stamp(f"{log}.1")), lambda: self._of_log(known))
        source("ledger", (_stamp(self._places.ledger), day), lambda: self._of_ledger(day, now))
        source("questions", (_stamp(self._places.questions), refs), lambda: self._of_questions(known))
        try:
            main, past = self._history(seen.main, refs, known)
            facts += past
            self._problems.pop("page", None)
        except _PROBLEMS as error:
            self._complain("page", error)
        return Sight(main, tuple(facts), tuple(unread))

    def _complain(self, source: str, error: Exception) -> None:
        if self._problems.get(source) != str(error):
            self._problems[source] = str(error)
            self._say(f"{source} could not be read: {error}")

    def _known(self) -> records.Known:
        try:
            return read_known(self._places.secrets)
        except OSError:
            return ()

    def _runs(self) -> bool:
        """Asked without touching the lock: a watcher that starts at this moment must get it."""
        found = is_locked(self._places.watcher_lock)
        return holder(self._places.watcher_lock) is not None if found is None else found

    def _of_watcher(self, runs: bool, switching: bool, known: records.Known) -> Iterable[Fact]:
        state = known_state(self._home)
        return records.of_watcher(state, runs, switching, known) if state else ()

    def _of_refusal(self, known: records.Known) -> Iterable[Fact]:
        if sandbox_in_use(self._home) != PODMAN:
            return ()
        try:
            with opened_file(f"{self._places.var}/{REFUSAL}") as file:
                why, told_at = json.loads(file.read(REFUSAL_BYTES)), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return ()
        return records.of_refusal(str(why), told_at, known)

    def _of_log(self, known: records.Known) -> Iterable[Fact]:
        var, log = Below(self._places.var), os.path.basename(self._places.watcher_log)
        tail = b"\n".join(var.tail(name, LOG_BYTES) for name in (f"{log}.1", log))
        return records.of_watcher_log(tail, known)

    def _of_ledger(self, day: str, now: float) -> Iterable[Fact]:
        try:
            self._spending.read(now)
        except FileNotFoundError:
            return ()
        return records.of_ledger(self._spending, day)

    def _of_questions(self, known: records.Known) -> Iterable[Fact]:
        if not os.path.lexists(self._places.questions):
            return ()
        git = open_repository(self._home)
        page = review.page_at(git, review.main_commit(git))
        return records.of_questions(approvals.waiting(self._home, page), page, known)

    def _history(self, seen: str, refs: Stamp, known: records.Known) -> tuple[str, tuple[Fact, ...]]:
        """Up to which commit main's history was read, and what stands in it since `seen`. With nothing seen yet, or
        in a repository that does not have it, it begins at main as it is."""
        if seen and (refs, seen) == self._main:
            return seen, ()
        git = open_repository(self._home)
        main = review.main_commit(git)
        found = list[Fact]()
        if seen and seen != main and resolve_commit(git, seen):
            try:
                commits = self._commits(git, seen, main)
                pairs = [(f"{id}^1", id, at) for id, email, at in commits[:MOST_COMMITS] if email == AGENT.email]
            except GitError as error:
                # The agent can make a history that git is not through with in time. The pages at its two ends tell the
                # same, but not who ticked a directive.
                self._say(
                    f"main's history since {seen[:12]} could not be read, only the page before and after: {error}"
                )
                commits, pairs = [], [(seen, main, timestamp(time.time()))]
            for before, after, at in pairs:
                look = git.afresh(GIT_SECONDS)
                with contextlib.suppress(CommsError):  # the PM took a section away
                    found += records.of_page(
                        after, at, review.page_at(look, before), review.page_at(look, after), known
                    )
            if len(commits) > MOST_COMMITS:
                return commits[MOST_COMMITS - 1][0], tuple(found)
        self._main = (refs, main)
        return main, tuple(found)


def commits_since(git: Git, seen: str, main: str) -> list[tuple[str, str, str]]:
    """Commit, address of its committer and time of those on main since `seen` that changed COMMS.md, oldest first; none
    where main was set back to before it. Raises GitError.

    Merges are left out, whichever parent comes first: what they bring, one of the others has written. One with a single
    parent that the agent pushed leaves the page alone (SPEC_COMMS), so these are the keep's and the PM's."""
    if not git.ok("merge-base", "--is-ancestor", seen, main):
        return []
    words = ("--full-history", "--no-merges", "--topo-order", "--reverse", "--format=%H%x00%ce%x00%ct%x00")
    fields = git.raw("log", *words, f"{seen}..{main}", "--", PAGE).decode(errors="replace").split("\0")
    rows = zip(fields[0::3], fields[1::3], fields[2::3], strict=False)
    return [(commit.strip(), email, _moment(at)) for commit, email, at in rows]


def _moment(at: str) -> str:
    """A commit says what it likes: now, for what no clock can show."""
    try:
        return timestamp(float(at))
    except (ValueError, OverflowError, OSError):
        return timestamp(time.time())


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns
