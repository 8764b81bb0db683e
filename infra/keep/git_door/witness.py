"""Gathers what the keep saw since the last work that was done: the repository's refs against those of then, the
ledger from where it ended then, and the watcher's record of starts. Nothing here asks the cell."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from structlog.typing import FilteringBoundLogger

from infra.keep import watcher_file
from infra.keep.git_door.evidence import Examined, Landed, ModelCalls, WorkRecord, evidence
from infra.keep.ledger.lines import Opened, line_of
from infra.keep.verdicts import records
from infra.keep.verdicts.refs import VERDICTS
from infra.shared.branches import MAIN, RESCUE
from infra.shared.clock import timestamp
from infra.shared.files import write_whole
from infra.shared.paths import Paths
from infra.shared.people import AGENT
from infra.shared.repository.git import EMPTY_TREE, Git, GitError, GitLimits
from infra.shared.repository.page_text import PAGES
from infra.shared.requests import AgentReport
from infra.shared.secret_shapes import redacted_and_cut

SCHEMA = "minifram.witness/1"
SECONDS = 10.0
"""For all git calls of one report."""
LIMITS = GitLimits(answer_bytes=32 << 20, memory_bytes=1 << 30)
MOST_COMMITS = 1000
"""Of one branch."""
MOST_BRANCHES = 20
LEDGER_BYTES = 64 << 20
"""Read of the ledger's end at most: some hundred thousand calls."""
HEADS = "refs/heads/"


class Mark(msgspec.Struct, frozen=True):
    """Where everything stood when work was done."""

    at: float
    """Seconds since the epoch."""
    refs: dict[str, str]
    ledger: int
    """Bytes."""
    schema: str = SCHEMA


class Witness:
    """Not for two threads at once."""

    def __init__(self, places: Paths, log: FilteringBoundLogger, wall_seconds: Callable[[], float] = time.time) -> None:
        self._places, self._log, self._wall_seconds = places, log, wall_seconds
        self._path = f"{places.var}/witness.json"
        self._now: Mark | None = None

    def begin(self) -> None:
        """Note what is there already, unless an earlier process has. Raises GitError, OSError."""
        if self._since() is None:
            self._now = self._look(self._git())
            self.work_done()

    def evidence_for(self, report: AgentReport) -> str:
        """For under this report; empty when there is nothing to compare with. Raises OSError."""
        since = self._since()
        return evidence(self._seen(since), f"{report.title}\n\n{report.text}") if since else ""

    def work_done(self) -> None:
        """The report that was looked at last is on the page, and ends the work. Raises OSError."""
        if self._now is not None:
            write_whole(self._path, msgspec.json.encode(self._now), mode=0o600)

    def _seen(self, since: Mark) -> WorkRecord:
        """Raises OSError."""
        at = self._wall_seconds()
        calls, starts = calls_since(self._places.ledger, since.ledger), self._starts(since.at)
        found = WorkRecord(timestamp(since.at), at - since.at, calls=calls, starts=starts)
        self._now = None
        try:
            git = self._git()
            # Kept though what follows fails: commits that take too long to count must not hide those of the next work.
            self._now = now = self._look(git)
            landed = tuple(_landed(git, since.refs, now.refs))
            return found._replace(landed=landed, examined=tuple(_examined(git, since.refs, now.refs)))
        except GitError as error:
            self._log.warning("evidence.repository_not_read", reason=redacted_and_cut(str(error), 1000))
            return found._replace(unseen=str(error))

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
        env = {"GIT_DIR": self._places.remote, "GIT_ATTR_SOURCE": EMPTY_TREE}
        return Git(self._places.remote, env=env, limits=LIMITS).within(SECONDS)

    def _look(self, git: Git) -> Mark:
        listed = git("for-each-ref", "--format=%(objectname) %(refname)", HEADS, VERDICTS).split("\n")
        try:
            ledger = os.stat(self._places.ledger).st_size
        except FileNotFoundError:
            ledger = 0
        return Mark(self._wall_seconds(), {line[41:]: line[:40] for line in listed if line}, ledger)

    def _starts(self, since: float) -> tuple[str, ...]:
        """A start for `bootstrap` is a hop that the agent asked for."""
        try:
            with open(self._places.watcher_state, "rb") as file:
                boots = watcher_file.decode(file.read()).boots
        except (OSError, ValueError):  # the watcher's own trouble, and reported by the watcher
            return ()
        ended = {"failed": ", failed", "died": ", died"}
        return tuple(
            f"{boot.branch} ({boot.reason.partition(':')[0]}{ended.get(boot.outcome, '')})"
            for boot in boots
            if boot.started_at > timestamp(since)
        )


def calls_since(path: str, begin: int) -> ModelCalls:
    """What the ledger has from this byte on; torn lines are passed over. Raises OSError."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = begin if begin <= size else 0  # it is another file than it was
            file.seek(max(begin, size - LEDGER_BYTES))
            lines = file.read(LEDGER_BYTES).split(b"\n")
    except FileNotFoundError:
        return ModelCalls()
    found, begun = ModelCalls(), dict[str, int]()
    for line in map(line_of, lines):
        if line is None:
            continue
        if isinstance(line, Opened):
            begun[line.id] = line.cost.nano_usd
            continue
        begun.pop(line.id, None)
        cost = line.cost
        found = found._replace(
            ended=found.ended + 1,
            nano_usd=found.nano_usd + cost.nano_usd,
            tokens=found.tokens + cost.tokens,
            seconds=found.seconds + line.duration_ms / 1000,
        )
    return found._replace(unended=len(begun), unended_nano_usd=sum(begun.values()))


def _landed(git: Git, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Landed]:
    """Main first, then the branches that have what main has not. What was rescued, the watcher put there."""
    main = f"{HEADS}{MAIN}"
    heads = [ref for ref in now if ref.startswith(HEADS) and not ref.startswith(f"{HEADS}{RESCUE}")]
    changed = sorted((ref for ref in heads if before.get(ref) != now[ref]), key=lambda ref: ref != main)
    known = [before[ref] for ref in before if ref.startswith(HEADS)]
    for ref in changed[:MOST_BRANCHES]:
        found = _commits(git, ref.removeprefix(HEADS), now[ref], known)
        if found.commits:
            yield found
        if ref == main:
            known.append(now[ref])


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
            added += int(numbers[1].replace("-", "0"))
            removed += int(numbers[2].replace("-", "0"))
            files.add(numbers[3])
    return Landed(branch, commits, len(files), added, removed, more=commits == MOST_COMMITS)


def _examined(git: Git, before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Examined]:
    """The oldest first; an examination without a result is none."""
    new = [ref.removeprefix(VERDICTS) for ref in now if ref.startswith(VERDICTS) and before.get(ref) != now[ref]]
    verdicts = [verdict for key in new if (verdict := records.find(git, key)) and not verdict.outage]
    for verdict in sorted(verdicts, key=lambda verdict: verdict.at):
        word = "; needs the PM's word" if verdict.passed and verdict.needs_word else ""
        yield Examined(verdict.branch, verdict.commit, verdict.passed, f"{verdict.words}{word}")
