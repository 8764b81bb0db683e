"""The five checks of an agent's mind, from what lies in the repository, in its clone and in the keep's state."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec

from host.agent.events import log_state, mind_of
from host.context import Context
from host.display import seconds_of
from host.errors import CommandError
from host.paths import AgentPaths
from host.repository.checks import Result
from host.repository.open import open_repository
from host.repository.skills import MIND_REF, all_problems, read_skills
from host.running.record import PODMAN, is_running, sandbox_in_use
from infra.shared.mind import health, promoted
from infra.shared.mind.beliefs import BELIEFS_FILE
from infra.shared.mind.claims import BeliefStatus
from infra.shared.mind.event_log import event_files
from infra.shared.mind.health import HealthCheck
from infra.shared.mind.integrity import log_integrity
from infra.shared.mind.layout import BELIEFS, LONG_TERM
from infra.shared.mind.long_term import LONG_TERM_FILE
from infra.shared.mind.metrics import FILE
from infra.shared.mind.skills import SkillStatus
from infra.shared.paths import CONTAINER
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.tip import read_file
from infra.shared.settings import Settings
from infra.shared.settings_file import SettingsError, read_settings
from infra.shared.status_file import WORKING

_T = TypeVar("_T")
_TICK = re.compile(r"^agent_last_tick_timestamp_seconds ([0-9.]{1,20})$", re.MULTILINE)
_PROM_BYTES = 1 << 20
MOST_FILE_BYTES = 16 << 20


class MindQuiet(NamedTuple):
    """Nothing was promoted though there were events."""

    days: float
    limit: int

    @property
    def words(self) -> str:
        """Empty when it is not so for long."""
        return health.quiet_words(self.days) if self.days >= self.limit else ""


def read_health(home: AgentPaths, git: Git, now: float) -> tuple[HealthCheck, ...]:
    """None of them raises: what cannot be looked at is a finding of its check."""
    settings = _or(lambda: read_settings(home.settings), Settings())

    def guarded(name: str, look: Callable[[], HealthCheck]) -> HealthCheck:
        try:
            return look()
        except (OSError, ValueError, LookupError, GitError, CommandError) as error:
            return HealthCheck(name, health.FAIL, f"it cannot be looked at: {error}")

    return (
        guarded("sandbox", lambda: _sandbox(home, git)),
        guarded("logging", lambda: _logging(home, git, settings, now)),
        guarded("coherence", lambda: _coherence(git, now)),
        guarded("task loop", lambda: _task_loop(home, now)),
        guarded("skills", lambda: _skills(git)),
    )


def check_mind(context: Context, home: AgentPaths) -> Iterator[Result]:
    """For `minifram doctor`; nothing for an agent without a mind."""
    import time

    try:
        git = open_repository(home)
        if resolve_commit(git, MIND_REF) is None:
            return
    except (CommandError, GitError):  # the check of the repository says it
        return
    for check in read_health(home, git, time.time()):
        yield Result(f"mind: {check.name}", check.level, check.words)


def quiet(home: AgentPaths, git: Git, settings: Settings, now: float) -> MindQuiet:
    """By the days of the files of events. Raises OSError, GitError."""
    days = [path.rpartition("/")[2][:10] for path in event_files(mind_of(home))]
    log = promoted.log_of(_text(git, promoted.PATH).encode(errors="surrogateescape"))
    first, last = (seconds_of(f"{days[at]}T00:00:00Z") if days else None for at in (0, -1))
    end = last + 86_399 if last is not None else None
    since = health.days_quiet(seconds_of(log.last_promotion) if log.last_promotion else None, first, end, now)
    return MindQuiet(since, settings.mind.quiet_days)


def _sandbox(home: AgentPaths, git: Git) -> HealthCheck:
    text = _text(git, health.SELF_CHECK)
    facts = msgspec.json.decode(text, type=health.SandboxFacts) if text else None
    return health.sandbox(facts, sandbox_in_use(home) == PODMAN, CONTAINER.mind)


def _logging(home: AgentPaths, git: Git, settings: Settings, now: float) -> HealthCheck:
    state = log_state(home, now)
    judged = log_integrity(state)
    if judged.problems:
        return HealthCheck("logging", health.FAIL, health.few(judged.problems))
    days = quiet(home, git, settings, now).days
    facts = health.LoggingFacts(state.events, state.last_event_at[:10], (), state.runs > 0, days)
    check = health.logging(facts, settings.mind.quiet_days)
    if check.level == health.OK and judged.warnings:
        return HealthCheck("logging", health.WARN, f"{check.words}; {health.few(judged.warnings)}")
    return check


def _coherence(git: Git, now: float) -> HealthCheck:
    beliefs = BELIEFS_FILE.parse(_text(git, BELIEFS), now)
    items = LONG_TERM_FILE.parse(_text(git, LONG_TERM), now)
    pairs = {frozenset((each.id, other)) for each in beliefs.found for other in each.contradictions}
    contested = sum(each.status is BeliefStatus.CONTESTED for each in beliefs.found)
    problems = [str(each) for each in (*beliefs.problems, *items.problems)]
    return health.coherence(health.CoherenceFacts(len(pairs), contested, problems))


def _task_loop(home: AgentPaths, now: float) -> HealthCheck:
    from host.agent.status import activity_of
    from host.running.watcher import known_state

    state = known_state(home)
    life = activity_of(home, state) if state else None
    found = _TICK.search(mind_of(home).tail(FILE, _PROM_BYTES).decode(errors="replace"))
    tick = _or(lambda: read_settings(home.settings), Settings()).intervals.work_seconds
    since = max(0.0, now - float(found[1])) if found else None
    return health.task_loop(health.LoopFacts(is_running(home), life is not None and life.doing == WORKING, since, tick))


def _skills(git: Git) -> HealthCheck:
    commit = resolve_commit(git, MIND_REF)
    skills = read_skills(git, commit) if commit else None
    if skills is None:
        return HealthCheck("skills", health.NOTE, "there is no branch mind")
    counts = {status: sum(skill.status is status for skill in skills.found) for status in SkillStatus}
    facts = health.SkillFacts(
        counts[SkillStatus.CANDIDATE],
        counts[SkillStatus.LEARNED],
        counts[SkillStatus.FAILED],
        counts[SkillStatus.DEPRECATED],
        all_problems(skills),
    )
    return health.skill_system(facts)


def _text(git: Git, path: str) -> str:
    """Of the branch; empty for what is missing. Raises GitError."""
    commit = resolve_commit(git, MIND_REF)
    return (read_file(git.saying_at_most(MOST_FILE_BYTES), commit, path) or "") if commit else ""


def _or(look: Callable[[], _T], otherwise: _T) -> _T:
    with suppress(OSError, SettingsError, ValueError):
        return look()
    return otherwise
