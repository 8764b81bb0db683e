"""The limits at work on one agent: it looks at what the cell takes of the machine, and does what the judge concludes:
a log is cut, room is made, the PM is told, or the runner is ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

import structlog

from infra.keep.environments.requirements import NAMES, BadRequirements
from infra.keep.environments.store import paths_of, wanted_hash, whole_ones
from infra.keep.limits import judge, processor, room, sample
from infra.keep.limits.values import Bounds, Finding, Remedy
from infra.keep.programs import keep_command, keep_environment
from infra.keep.services import children
from infra.keep.services.children import begin_aside
from infra.keep.supervision import clearing
from infra.keep.supervision.checkouts import Cell
from infra.keep.supervision.decide.events import Event, MustEnd, Observed
from infra.keep.supervision.decide.state import Phase, State
from infra.keep.supervision.following import Following
from infra.shared.repository.git import Git, GitError
from infra.shared.repository.tip import read_file
from infra.shared.secret_shapes import redacted_and_cut

TIDY_SECONDS = 6 * 3600.0
FIRST_TIDY_SECONDS = 900.0
"""After the start, so that tidying does not delay it."""
TOLD_SECONDS = 86400.0
"""The PM hears of the same thing once a day."""


class LimitWatch:
    """Enforces the limits of one agent."""

    def __init__(
        self,
        clones: Cell,
        limits: Bounds,
        following: Following,
        keep_pids: Callable[[], frozenset[int]],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._clones = clones
        self._limits = limits
        self._following = following
        self._keep_pids = keep_pids
        self._log = log
        self._memory = judge.Memory()
        self._excused = False
        self._told: dict[str, float] = {}
        self._next_tidy = time.monotonic() + FIRST_TIDY_SECONDS

    def due(self) -> float:
        return min(judge.next_due(self._memory, self._limits) or inf, self._next_tidy)

    def excuse(self) -> None:
        """The keep itself has something run in the cell now, which the agent's sleep does not explain."""
        self._excused = True

    def look(self, state: State, at: float) -> list[Event]:
        """Measure, if it is time to; returns the events."""
        events: list[Event] = []
        runner = self._following.runner
        if runner and state.phase is Phase.RUNNING and at >= judge.next_due(self._memory, self._limits):
            places, identity = self._clones.places, self._clones.identity
            last, weigh, excused = self._memory.last, self._memory.weigh, self._excused
            seen = sample.take(places, identity, runner, self._keep_pids(), last, weigh, excused)
            self._excused = False
            self._memory, findings = judge.judge(self._memory, seen, self._limits)
            for finding in findings:
                events += self._meet(finding, state, at)
        if at >= self._next_tidy:
            events += self._tidy(state, at, short=False)
        return events

    def _meet(self, finding: Finding, state: State, at: float) -> list[Event]:
        self._log.warning(
            "limit.passed",
            rule=finding.rule.value,
            remedy=finding.remedy.value,
            measured=finding.measured,
            limit=finding.limit,
            path=finding.path,
            text=finding.text,
        )
        names = " ".join(sorted({process.name for process in finding.processes}))
        told = self._tell(
            f"{finding.rule.value} {finding.path}{names}", f"a limit: {finding.rule.value}", finding.text, at
        )
        match finding.remedy:
            case Remedy.TRIM_LOG:
                try:
                    self._clones.files.cut(finding.path)
                except OSError as error:
                    self._log.error("log.not_cut", path=finding.path, reason=str(error))
            case Remedy.KILL:
                ended = [process.pid for process in finding.processes if processor.end(process)]
                self._log.warning("processes.ended", pids=ended)
            case Remedy.TIDY:
                return told + self._tidy(state, at, short=True)
            case Remedy.END if finding.runner:
                return [MustEnd(finding.runner.boot_id, f"it exceeded a limit: {finding.text}")]
        return told

    def _tell(self, key: str, title: str, text: str, at: float) -> list[Event]:
        if at - self._told.get(key, -TOLD_SECONDS) < TOLD_SECONDS:
            return []
        self._told[key] = at
        return [Observed(title, text)]

    def _tidy(self, state: State, at: float, short: bool) -> list[Event]:
        """Make room: nothing that exists only here is removed."""
        self._next_tidy = at + TIDY_SECONDS
        running = state.runner.branch if state.runner else ""
        try:
            found = clearing.look(self._clones, running, short)
        except (OSError, GitError) as error:
            self._log.error("tidy.not_looked", reason=redacted_and_cut(str(error), 1000))
            return []
        now = time.time()
        outcomes = clearing.remove(room.choose(found, self._limits, now), self._clones)
        for outcome in outcomes:
            removal = outcome.removal
            self._log.info("tidied", kind=removal.kind.value, name=removal.name, problem=outcome.problem)
        self._tidy_environments(state)
        gone = [f"{each.removal.name} {each.removal.commit}".strip() for each in outcomes if not each.problem]
        rescued = [name for name in gone if name.startswith("rescue/")]
        stays = room.overdue(found, self._limits, now)
        events: list[Event] = []
        if rescued:
            events.append(Observed("old rescue branches were deleted", "\n".join(rescued)))
        if stays:
            words = "The limits are exceeded by work that exists only here:\n" + "\n".join(stays[:20])
            events += self._tell("overdue", "directories that cannot be removed", words, at)
        return events

    def _tidy_environments(self, state: State) -> None:
        """In a process of its own: a tree may be of any size. What known-good versions need stays."""
        places = self._clones.places
        words = (places.bot, places.environments, places.wheels, *self._of_known_good(state))
        env = keep_environment() | {"HOME": "/nonexistent", children.KEEPS_GIT: places.var}
        try:
            with self._clones.identity.acting():
                begin_aside(keep_command("infra.keep.environments.tidy", *words), env, self._clones.identity)
        except OSError as error:
            self._log.error("environments.not_tidied", reason=str(error))

    def _of_known_good(self, state: State) -> list[str]:
        places = self._clones.places
        git, stay = Git(places.remote), []
        whole = whole_ones(self._clones.files, places.environments)
        for good in state.known_good:
            for name in NAMES:
                try:
                    text = read_file(git, good.commit, name)
                    if text is None:
                        continue
                    stay += paths_of(wanted_hash(text.encode(errors="surrogateescape"), None, name), whole)
                except (GitError, BadRequirements):
                    break
                break
        return stay
