"""The keep's own record, under each report: what it saw since the last work that was done. It compares the repository's
refs with those of then, reads the ledger from where it ended then, and the watcher's list of starts, and has the pushes
that were refused. Nothing here asks the cell."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from structlog.typing import FilteringBoundLogger

from infra.keep.git_door.caller import watcher_says
from infra.keep.ledger.lines import Settled, line_of
from infra.keep.ledger.prices import NANO
from infra.keep.verdicts import refs
from infra.keep.verdicts.refs import VERDICTS
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.paths import PAGES, Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, GitLimits
from infra.shared.secret_shapes import redacted_and_cut
from infra.shared.text import counted, cut

SECONDS = 10.0
"""For all git calls of one report."""
LIMITS = GitLimits(answer_bytes=32 << 20, memory_bytes=1 << 30)
MOST_REFUSALS = 100
SHOWN, WORDS_CHARS = 4, 160
"""Things of one kind that are named, and of each."""
HEADS = "refs/heads/"


class Mark(msgspec.Struct, frozen=True):
    """Where everything stood when work was done."""

    at: float
    """Seconds since the epoch."""
    refs: dict[str, str]
    ledger: int
    """Bytes."""


class WorkRecord:
    """Not for two threads at once, but for `push_refused`. Nothing that goes wrong here keeps a report from the PM."""

    def __init__(self, places: Paths, log: FilteringBoundLogger, wall_seconds: Callable[[], float] = time.time) -> None:
        self._places, self._log, self._wall_seconds = places, log, wall_seconds
        self._path = f"{places.var}/record.json"
        self._since: Mark | None = None
        self._now: Mark | None = None
        self._refused = dict[str, None]()

    def begin(self) -> None:
        """From what an earlier process noted; else from now on."""
        try:
            with open(self._path, "rb") as file:
                self._since = msgspec.json.decode(file.read(), type=Mark)
            return
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._log.info("record.begun", reason=str(error))
        try:
            self._now = self._look(self._git())
        except (GitError, OSError) as error:
            self._log.error("record.not_begun", reason=str(error))
        self.work_done()

    def lines(self) -> str:
        """For under a report; empty when there is nothing to compare with."""
        if (since := self._since) is None:
            return ""
        lines = [f"since {timestamp(since.at)}"]
        try:
            lines.append(_calls(self._places.ledger, since.ledger))
            git = self._git()
            # Kept though what follows fails: commits that take too long to count must not hide those of the next work.
            self._now = now = self._look(git)
            lines.append(f"commits: {_shown(_commits(git, since.refs, now.refs))}")
            lines.append(f"tests run by the keep: {_shown(_examined(git, since.refs, now.refs))}")
        except Exception as error:
            self._log.exception("record.not_whole")
            lines.append(f"the rest is not known ({_plain(redacted_and_cut(str(error), 1000))})")
        beside = (("pushes refused", list(self._refused)), ("hops and starts", list(self._starts(since.at))))
        lines += [f"{what}: {_shown(found)}" for what, found in beside if found]
        return "\n".join(f"- {line}" for line in lines)

    def push_refused(self, why: str) -> None:
        """Whoever judges a push tells it here, a line each; a restart forgets them."""
        if len(self._refused) < MOST_REFUSALS:
            self._refused[why] = None

    def work_done(self) -> None:
        """The report that was looked at last is on the page, and ends the work."""
        if self._now is not None:
            self._since = self._now
            self._refused.clear()
            try:
                write_whole(self._path, msgspec.json.encode(self._now), mode=0o600)
            except OSError as error:
                self._log.error("record.not_kept", reason=str(error))

    def _git(self) -> Git:
        # No attributes but git's own: with them a commit could keep its changes from being counted.
        env = {"GIT_DIR": self._places.remote, "GIT_ATTR_SOURCE": EMPTY_TREE}
        return Git(self._places.remote, env=env, limits=LIMITS).within(SECONDS)

    def _look(self, git: Git) -> Mark:
        listed = git("for-each-ref", "--format=%(objectname) %(refname)", HEADS, VERDICTS).splitlines()
        ledger = os.stat(self._places.ledger).st_size if os.path.exists(self._places.ledger) else 0
        return Mark(self._wall_seconds(), {line[41:]: line[:40] for line in listed}, ledger)

    def _starts(self, since: float) -> Iterator[str]:
        """A start for `bootstrap` is a hop that the agent asked for."""
        for boot in watcher_says(self._places).boots:
            if boot.started_at > timestamp(since):
                end = f", {boot.outcome}" if boot.outcome in ("failed", "died") else ""
                yield f"{boot.branch} ({boot.reason.partition(':')[0]}{end})"


def _calls(path: str, begin: int) -> str:
    """What the ledger has from this byte on. Raises OSError."""
    calls = nano = tokens = milliseconds = 0
    if os.path.exists(path):
        with open(path, "rb") as file:
            file.seek(begin)
            for line in map(line_of, file):
                if isinstance(line, Settled):
                    calls, nano, tokens = calls + 1, nano + line.nano_usd, tokens + sum(line.usage)
                    milliseconds += line.duration_ms
    money = f"${nano / NANO:,.4f}, {counted(tokens, 'token')}"
    return f"{counted(calls, 'model call')}, {money}, {round(milliseconds / 1000)} s in the model"


def _commits(git: Git, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """The agent's commits by branch, main first, but for those that change the pages alone; each commit once."""
    heads = [ref for ref in now if ref.startswith(HEADS)]
    known = [before[ref] for ref in before if ref.startswith(HEADS)]
    but = [f":(exclude){page}" for page in PAGES]
    words = ("log", "--no-merges", "--shortstat", "-F", f"--committer=<{AGENT.email}>", "--ignore-missing")
    for ref in sorted(heads, key=lambda ref: ref != f"{HEADS}{MAIN}"):
        if before.get(ref) == now[ref]:
            continue
        revisions = "\n".join([now[ref], *(f"^{commit}" for commit in known)]).encode()
        told = git(*words, "--format=%x01", "--stdin", "--", ".", *but, stdin=revisions)
        if commits := told.count("\x01"):
            added, removed = (sum(map(int, re.findall(rf"(\d+) {word}", told))) for word in ("insertion", "deletion"))
            yield f"{commits} on {ref.removeprefix(HEADS)} (+{added:,} -{removed:,} lines)"
        known.append(now[ref])


def _examined(git: Git, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """The newest first; an examination without a result is none."""
    new = [ref.removeprefix(VERDICTS) for ref in now if ref.startswith(VERDICTS) and before.get(ref) != now[ref]]
    found = [verdict for key in new if (verdict := refs.find(git, key)) and not verdict.outage]
    for verdict in sorted(found, key=lambda verdict: -verdict.at):
        word = "; needs the PM's word" if verdict.passed and verdict.needs_word else ""
        result = "passed" if verdict.passed else "did not pass"
        yield f"{verdict.branch}@{verdict.commit[:12]} {result}: {verdict.words}{word}"


def _shown(things: Iterable[str]) -> str:
    found = list(things)
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "; ".join([*map(_plain, found[:SHOWN]), *more]) or "none"


def _plain(text: str) -> str:
    """On one line, without what would be more than text in Markdown."""
    line = "".join(each if each.isprintable() else " " for each in " ".join(text.split()))
    return cut(line.replace("`", "'").replace("*", "·"), WORDS_CHARS)
