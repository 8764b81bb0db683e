"""The keep's own record, under each report: what it saw since the last work that was done. It compares the repository's
refs with those of then, reads the ledger from where it ended then, and the watcher's list of starts, and has the pushes
that were refused. Nothing here asks the cell."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from structlog.typing import FilteringBoundLogger

from infra.keep.git_door.caller import watcher_says
from infra.keep.ledger.lines import Settled, line_of
from infra.keep.ledger.prices import NANO
from infra.keep.verdicts import records
from infra.keep.verdicts.refs import VERDICTS
from infra.shared.branches import MAIN, RESCUE
from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, GitLimits
from infra.shared.repository.page_text import PAGES
from infra.shared.secret_shapes import redacted_and_cut
from infra.shared.text import counted, cut

SECONDS = 10.0
"""For all git calls of one report."""
LIMITS = GitLimits(answer_bytes=32 << 20, memory_bytes=1 << 30)
MOST_BRANCHES, MOST_REFUSALS = 20, 100
LEDGER_BYTES = 64 << 20
"""Read of the ledger's end at most: some hundred thousand calls."""
SHOWN, WORDS_CHARS = 4, 160
"""Things of one kind that are named, and of each."""
HEADS, MAIN_REF = "refs/heads/", f"refs/heads/{MAIN}"


class Mark(msgspec.Struct, frozen=True):
    """Where everything stood when work was done."""

    at: float
    """Seconds since the epoch."""
    refs: dict[str, str]
    ledger: int
    """Bytes."""


class WorkRecord:
    """Not for two threads at once, but for `push_refused`."""

    def __init__(self, places: Paths, log: FilteringBoundLogger, wall_seconds: Callable[[], float] = time.time) -> None:
        self._places, self._log, self._wall_seconds = places, log, wall_seconds
        self._path = f"{places.var}/record.json"
        self._now: Mark | None = None
        self._refused: Counter[str] = Counter()

    def begin(self) -> None:
        """Note what is there already, unless an earlier process has. Raises GitError, OSError."""
        if self._since() is None:
            self._now = self._look(self._git())
            self.work_done()

    def lines(self) -> str:
        """For under a report; empty when there is nothing to compare with. Raises OSError."""
        since = self._since()
        if since is None:
            return ""
        try:
            seconds = max(0, round(self._wall_seconds() - since.at))
            took = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
            lines = [f"Since {timestamp(since.at)} ({took}): {_calls(self._places.ledger, since.ledger)}"]
            git = self._git()
            # Kept though what follows fails: commits that take too long to count must not hide those of the next work.
            self._now = now = self._look(git)
            lines.append(f"commits: {_shown(_commits(git, since.refs, now.refs))}")
            lines.append(f"tests run by the keep: {_shown(_examined(git, since.refs, now.refs))}")
        except GitError as error:
            self._log.warning("record.repository_not_read", reason=redacted_and_cut(str(error), 1000))
            lines.append(f"commits and tests: not known ({_plain(str(error))})")
        times = [f"{push} ({count} times)" if count > 1 else push for push, count in list(self._refused.items())]
        starts = list(self._starts(since.at))
        beside = (("pushes refused", times), ("hops and starts", starts))
        lines += [f"{what}: {_shown(found)}" for what, found in beside if found]
        return "\n".join(f"- {line}" for line in lines)

    def push_refused(self, why: str) -> None:
        """Whoever judges a push tells it here, a line each; a restart forgets them."""
        if why in self._refused or len(self._refused) < MOST_REFUSALS:
            self._refused[why] += 1

    def work_done(self) -> None:
        """The report that was looked at last is on the page, and ends the work. Raises OSError."""
        if self._now is not None:
            write_whole(self._path, msgspec.json.encode(self._now), mode=0o600)
            self._refused.clear()

    def _since(self) -> Mark | None:
        try:
            with open(self._path, "rb") as file:
                return msgspec.json.decode(file.read(), type=Mark)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._log.error("record.not_readable", path=self._path, error=str(error))
            return None

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
    settled: list[Settled] = []
    if os.path.exists(path):
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(begin if begin <= size else 0, size - LEDGER_BYTES))  # or it is another file than it was
            settled = [line for line in map(line_of, file) if isinstance(line, Settled)]
    usd, seconds = sum(line.cost.nano_usd for line in settled) / NANO, sum(line.duration_ms for line in settled) / 1000
    tokens = sum(line.cost.tokens for line in settled)
    calls = counted(len(settled), "model call")
    return f"{calls}, ${usd:,.4f}, {counted(tokens, 'token')}, {round(seconds)} s in the model"


def _commits(git: Git, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """The agent's commits by branch, main first, but for those that change the pages alone; each commit once. What was
    rescued, the watcher put there."""
    heads = [ref for ref in now if ref.startswith(HEADS) and not ref.startswith(f"{HEADS}{RESCUE}")]
    changed = sorted((ref for ref in heads if before.get(ref) != now[ref]), key=lambda ref: ref != MAIN_REF)
    known = [before[ref] for ref in before if ref.startswith(HEADS)]
    but = [f":(exclude){page}" for page in PAGES]
    words = ("log", "--no-merges", "--shortstat", "-F", f"--committer=<{AGENT.email}>", "--ignore-missing")
    for ref in changed[:MOST_BRANCHES]:
        revisions = "\n".join([now[ref], *(f"^{commit}" for commit in known)]).encode()
        told = git(*words, "--format=%x01", "--stdin", "--", ".", *but, stdin=revisions)
        if commits := told.count("\x01"):
            added, removed = (sum(map(int, re.findall(rf"(\d+) {word}", told))) for word in ("insertion", "deletion"))
            yield f"{commits} on {ref.removeprefix(HEADS)} (+{added:,} -{removed:,} lines)"
        known.append(now[ref])


def _examined(git: Git, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """The newest first; an examination without a result is none."""
    new = [ref.removeprefix(VERDICTS) for ref in now if ref.startswith(VERDICTS) and before.get(ref) != now[ref]]
    verdicts = [verdict for key in new if (verdict := records.find(git, key)) and not verdict.outage]
    for verdict in sorted(verdicts, key=lambda verdict: -verdict.at):
        word = "; needs the PM's word" if verdict.passed and verdict.needs_word else ""
        result = "passed" if verdict.passed else "did not pass"
        yield f"{verdict.branch}@{verdict.commit[:12]} {result}: {verdict.words}{word}"


def _shown(things: Iterator[str] | Sequence[str]) -> str:
    found = list(things)
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "; ".join([*map(_plain, found[:SHOWN]), *more]) or "none"


def _plain(text: str) -> str:
    """On one line, without what would be more than text in Markdown."""
    line = "".join(each if each.isprintable() else " " for each in " ".join(text.split()))
    return cut(line.replace("`", "'").replace("*", "·"), WORDS_CHARS)
