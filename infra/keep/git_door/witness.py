"""Gathers what the keep saw since the last unit of work that was done: the repository's refs against those of then, the
ledger from where it ended then, and the watcher's record of starts. Nothing here asks the cell."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from structlog.typing import FilteringBoundLogger

from infra.keep.git_door.evidence import Calls, Examined, Landed, Seen, evidence
from infra.keep.ledger.ledger import Opened, line_of, opening_cost, settled_cost
from infra.shared import watcher_file
from infra.shared.branches import MAIN, RESCUE
from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.people import AGENT
from infra.shared.places import Places
from infra.shared.repository.git import Git, GitError, Limits
from infra.shared.repository.page_text import PAGES
from infra.shared.requests import Report
from infra.shared.verdicts import records
from infra.shared.verdicts.refs import VERDICTS
from infra.shared.verdicts.verdict import Verdict

SCHEMA = "minifram.witness/1"
SECONDS = 10.0
"""For all git calls of one report."""
LIMITS = Limits(answer_bytes=32 << 20, memory_bytes=1 << 30)
MOST_COMMITS = 1000
"""Of one branch."""
MOST_BRANCHES = 20
LEDGER_BYTES = 64 << 20
"""Read of the ledger's end at most: some hundred thousand calls."""
HEADS = "refs/heads/"
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class Mark(msgspec.Struct, frozen=True):
    """Where everything stood when a unit of work was done."""

    at: float
    """Seconds since the epoch."""
    refs: dict[str, str]
    ledger: int
    """Bytes."""
    schema: str = SCHEMA


class Witness:
    """Not for two threads at once."""

    def __init__(
        self, places: Places, log: FilteringBoundLogger, wall_seconds: Callable[[], float] = time.time
    ) -> None:
        self._places, self._log, self._wall_seconds = places, log, wall_seconds
        self._now: Mark | None = None

    def begin(self) -> None:
        """See what there is already, unless an earlier process has. Raises GitError, OSError."""
        if self._since() is None:
            self._now = self._look(self._git())
            self.unit_done()

    def evidence_for(self, report: Report) -> str:
        """For under this report; empty when there is nothing to compare with. Raises OSError."""
        since = self._since()
        if since is None:
            return ""
        return evidence(self.seen(since), f"{report.title}\n\n{report.text}")

    def seen(self, since: Mark) -> Seen:
        """Raises OSError."""
        at = self._wall_seconds()
        found = Seen(timestamp(since.at), at - since.at, calls=self._calls(since.ledger), starts=self._starts(since.at))
        self._now = None
        try:
            git = self._git()
            # Kept though what follows fails: commits that take too long to count must not hide those of the next unit.
            self._now = now = self._look(git)
            landed = tuple(self._landed(git, since.refs, now.refs))
            return found._replace(landed=landed, examined=tuple(self._examined(git, since.refs, now.refs)))
        except GitError as error:
            self._log.warning("evidence.repository_not_read", reason=str(error)[:1000])
            return found._replace(unseen=str(error))

    def unit_done(self) -> None:
        """The report that was looked at last is on the page, and ends a unit of work. Raises OSError."""
        if self._now is not None:
            write_whole(self._path, msgspec.json.encode(self._now), mode=0o600)

    @property
    def _path(self) -> str:
        return f"{self._places.var}/witness.json"

    def _since(self) -> Mark | None:
        try:
            with open(self._path, "rb") as file:
                mark = msgspec.json.decode(file.read(), type=Mark)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._log.error("witness.not_readable", path=self._path, error=str(error))
            return None
        return mark if mark.schema == SCHEMA else None

    def _git(self) -> Git:
        # No attributes but git's own: with them a commit could keep its changes from being counted.
        env = {"GIT_DIR": self._places.remote, "GIT_ATTR_SOURCE": _EMPTY_TREE}
        return Git(self._places.remote, env=env, limits=LIMITS).within(SECONDS)

    def _look(self, git: Git) -> Mark:
        listed = git("for-each-ref", "--format=%(objectname) %(refname)", HEADS, VERDICTS).split("\n")
        refs = {line[41:]: line[:40] for line in listed if line}
        try:
            ledger = os.stat(self._places.ledger).st_size
        except FileNotFoundError:
            ledger = 0
        return Mark(self._wall_seconds(), refs, ledger)

    def _landed(self, git: Git, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Landed]:
        """Main first, then the branches that have what main has not. What was rescued, the watcher put there."""
        heads = [ref for ref in now if ref.startswith(HEADS) and not ref.startswith(f"{HEADS}{RESCUE}")]
        changed = [ref for ref in heads if before.get(ref) != now[ref]]
        changed.sort(key=lambda ref: ref != f"{HEADS}{MAIN}")
        known = [*(before[ref] for ref in before if ref.startswith(HEADS))]
        for ref in changed[:MOST_BRANCHES]:
            found = _commits(git, ref.removeprefix(HEADS), now[ref], known)
            if found.commits:
                yield found
            if ref == f"{HEADS}{MAIN}":
                known.append(now[ref])

    def _examined(self, git: Git, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Examined]:
        new = [ref for ref in now if ref.startswith(VERDICTS) and before.get(ref) != now[ref]]
        found = [verdict for ref in new if (verdict := _verdict(git, ref.removeprefix(VERDICTS)))]
        yield from map(_examined, sorted(found, key=lambda verdict: verdict.at))

    def _calls(self, begin: int) -> Calls:
        try:
            with open(self._places.ledger, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                begin = begin if begin <= size else 0  # it is another file than it was
                file.seek(max(begin, size - LEDGER_BYTES))
                content = file.read(LEDGER_BYTES)
        except FileNotFoundError:
            return Calls()
        return calls_in(content.split(b"\n"))

    def _starts(self, since: float) -> tuple[str, ...]:
        try:
            with open(self._places.watcher_state, "rb") as file:
                boots = watcher_file.decode(file.read()).boots
        except (OSError, ValueError):  # the watcher's own trouble, and told by the watcher
            return ()
        return tuple(_start(boot) for boot in boots if boot.started_at > timestamp(since))


def _start(boot: watcher_file.BootRecord) -> str:
    """`bootstrap` is a hop that the agent asked for."""
    how = f", {boot.outcome}" if boot.outcome in ("failed", "died") else ""
    return f"{boot.branch} ({boot.reason.partition(':')[0]}{how})"


def calls_in(lines: Sequence[bytes]) -> Calls:
    """What these lines of the ledger come to; torn ones are passed over."""
    found, begun = Calls(), dict[str, int]()
    for content in lines:
        line = line_of(content)
        if line is None:
            continue
        if isinstance(line, Opened):
            begun[line.id] = opening_cost(line).nano_usd
            continue
        begun.pop(line.id, None)
        cost = settled_cost(line)
        found = found._replace(
            ended=found.ended + 1,
            nano_usd=found.nano_usd + cost.nano_usd,
            tokens=found.tokens + cost.tokens,
            seconds=found.seconds + line.duration_ms / 1000,
        )
    return found._replace(unended=len(begun), unended_nano_usd=sum(begun.values()))


_NUMBERS = re.compile(r"(\d+|-)\t(\d+|-)\t(.*)")


def _commits(git: Git, branch: str, tip: str, known: Sequence[str]) -> Landed:
    """The agent's commits of `tip` that none of the known ones has, but for those that change the pages alone."""
    revisions = "\n".join([tip, *(f"^{commit}" for commit in known)])
    words = ("log", "--no-merges", "--no-renames", "--numstat", f"--max-count={MOST_COMMITS + 1}", "--ignore-missing")
    but = [f":(exclude){page}" for page in PAGES]
    listed = git(*words, "--format=%x01%ce", "--stdin", "--", ".", *but, stdin=revisions.encode())
    commits, added, removed, files, counts = 0, 0, 0, set[str](), False
    for line in listed.split("\n"):
        if line.startswith("\x01"):
            counts = line[1:] == AGENT.email and commits < MOST_COMMITS
            commits += counts
        elif counts and (numbers := _NUMBERS.fullmatch(line)):
            added += int(numbers[1]) if numbers[1] != "-" else 0
            removed += int(numbers[2]) if numbers[2] != "-" else 0
            files.add(numbers[3])
    return Landed(branch, commits, len(files), added, removed, more=commits == MOST_COMMITS)


def _verdict(git: Git, key: str) -> Verdict | None:
    """None for what cannot be read, and for an examination that did not come about."""
    found = records.find(git, key)
    return found if found and not found.outage else None


def _examined(verdict: Verdict) -> Examined:
    word = "; needs the PM's word" if verdict.passed and verdict.needs_word else ""
    return Examined(verdict.branch, verdict.commit, verdict.passed, f"{verdict.words}{word}")
