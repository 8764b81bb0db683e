"""The state of an agent, running or not, gathered into one value: for `minifram status` and whatever else shows it.

Facts come from their owners: running or not from the lock, the rest of the supervision from `watcher.json`, what
the runner is doing from its own file (its own claim), money from the ledger, words from COMMS.md."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from host.agent import pins
from host.agent.duties import DutyShown, read_duties
from host.agent.egress import mode_in_use
from host.agent.mind_health import quiet
from host.agent.mind_state import mind_lines
from host.agent.web import NOT_YET, WebUse, read_web
from host.errors import CommandError, not_found
from host.paths import AgentPaths
from host.repository import approvals, review, taint
from host.repository.comms import Report, reports
from host.repository.open import open_repository
from host.running.record import PODMAN, keys_in_use, sandbox_in_use
from host.running.watcher import another_code, holder, known_state, orphan
from infra.shared import comms, watcher_file
from infra.shared.branches import MAIN, problem_with_branch
from infra.shared.clock import timestamp
from infra.shared.model_settings import model_words
from infra.shared.paths import LIFE_FILE
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.version import body_of
from infra.shared.safe_files import Below, opened_file
from infra.shared.settings import Settings
from infra.shared.settings_file import SettingsError, read_settings
from infra.shared.signals import SignalName
from infra.shared.status_file import SCHEMA as LIFE_SCHEMA
from infra.shared.status_file import RunnerStatus
from infra.shared.verdicts import refs
from infra.shared.watcher_file import BootRecord, Trouble, WatcherFile

_T = TypeVar("_T")

LIFE_BYTES = 16 * 1024
DISK_FULL_BYTES = 100 << 20
REFUSAL = "refused.json"
"""In the keep's state: why the container could not be sealed, until it could (`infra.seal`)."""
BOOTS_SHOWN = 5
TROUBLES_SHOWN = 3


class Waiting(NamedTuple):
    """A branch that awaits review."""

    name: str
    commit: str
    verdict: str


class Spent(NamedTuple):
    """Today's budget; a UTC day."""

    day: str
    usd: float
    tokens: int
    reserved_usd: float
    """Worst cases of the calls under way."""
    daily_usd: float
    daily_tokens: int
    calls: int
    exhausted: bool
    labels: Mapping[str, float] = MappingProxyType({})
    """US dollars by what calls were for."""


class Status(NamedTuple):
    agent: str
    running: bool
    """The truth of this moment: a watcher holds the lock."""
    pid: int
    orphan: int
    """The pid of a runner that lives on though its watcher was killed; 0 when there is none."""
    phase: str
    """The watcher's phase; `down` when there is no watcher."""
    since: str
    until: str
    """When waiting: the next launch."""
    preparing: str
    """The branch that is made ready, in that phase."""
    sandbox: str
    egress: str
    """`egress.mode`, in the podman sandbox; empty in the other, where nothing stands in the way."""
    autonomy: str
    model: str
    is_led: bool
    """A runner lives: `branch`, `commit` and `level` are its. Else they are of the one that ran last."""
    branch: str
    commit: str
    subject: str
    level: str
    """What runs, or ran last: `branch`, `main`, `last good`, `safe mode`; empty before the first start."""
    main: str
    outdated: bool
    """Main has other code than what runs; the runner makes way for it when its run is done."""
    make_way_by: str
    """When it is ended, if it has not made way by then; empty when it need not."""
    failures: int
    pins: tuple[pins.Pin, ...]
    """Versions that failed and are not started again for now, newest first."""
    retry_asked: bool
    """The PM has asked that they be tried again, and the watcher has not taken it yet."""
    untold: int
    """Reports of the watcher's that are not in COMMS.md yet."""
    life: RunnerStatus | None
    examining: tuple[str, ...]
    """Branches whose examination was asked for, and is waiting or under way."""
    boots: tuple[BootRecord, ...]
    """The last ones, newest first."""
    last_report: Report | None
    open_directives: int
    awaiting_review: tuple[Waiting, ...]
    awaiting_approval: tuple[approvals.Asking, ...]
    budget: Spent | None
    taint: tuple[str, ...]
    """That the present work has read the web, and what is held because other work had."""
    web: WebUse | None
    """What the web door did; None when it was never asked."""
    mind: tuple[str, ...]
    """What of the mind is not as the PM wrote it, and the PM's own large changes of who the agent is."""
    duties: tuple[DutyShown, ...]
    """The mind's; none for an agent without one."""
    quiet: str
    """That nothing was promoted for long though there were events; else empty."""
    troubles: tuple[Trouble, ...]
    """The last ones, newest first, and what could not be read just now."""
    remote: str


def read_status(home: AgentPaths, now: float) -> Status:
    """Raises the CommandError that keeps the repository from being opened; anything less is one of the troubles."""
    git = open_repository(home)
    problems: list[str] = []

    def read(what: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return what()
        except (OSError, ValueError, SettingsError, GitError, LookupError, CommandError) as error:
            problems.append(str(error))
            return otherwise

    settings = read(lambda: read_settings(home.settings), Settings())
    state = read(lambda: known_state(home), None) or WatcherFile()
    sandbox = sandbox_in_use(home)
    pid = holder(home.places.watcher_lock, sandbox == PODMAN)
    is_running = pid is not None
    is_led = is_running and bool(state.branch)
    main = read(lambda: _main(git), "")
    page = read(lambda: review.page_at(git, main), "") if main else ""
    last = state.boots[-1] if state.boots else None
    branch = state.branch or (last.branch if last else "")
    commit = state.commit or (last.commit if last else "")
    level = pins.level_of(state)
    pinned = read(lambda: pins.known(git, state, main), tuple[pins.Pin, ...]()) if main else ()
    stands_in = level in pins.STAND_INS and any(pin.is_main for pin in pinned)
    problems += _untold(home, state, is_running)
    found = Status(
        agent=home.agent,
        running=is_running,
        pid=pid or 0,
        # In a container nothing outlives its first process, and its pids are none of ours.
        orphan=0 if is_running or sandbox == PODMAN else orphan(state),
        phase=state.phase if is_running else "down",
        since=state.since if is_running or state.phase == watcher_file.STOPPED else "",
        until=state.until if is_running else "",
        preparing=_prepared(state) if is_running and state.phase == watcher_file.PREPARING else "",
        sandbox=(sandbox if is_running else "") or settings.sandbox,
        egress=mode_in_use(home) if is_running and sandbox == PODMAN else "",
        autonomy=settings.autonomy,
        model=model_words(settings.model, keys_in_use(home) if is_running else ()),
        is_led=is_led,
        branch=branch,
        commit=commit,
        subject=read(lambda: _subject(git, commit), ""),
        level=level,
        main=main or state.main.commit,
        outdated=bool(main and is_led and branch == MAIN and not stands_in)
        and read(lambda: _differs(git, commit, main), False),
        make_way_by=state.make_way_by if is_led else "",
        failures=state.failures,
        pins=pinned,
        retry_asked=pins.is_asked(home),
        untold=len(state.untold),
        life=activity_of(home, state) if is_running else None,
        examining=read(lambda: tuple(name for name, _ in refs.requests(git)), ()),
        boots=tuple(reversed(state.boots[-BOOTS_SHOWN:])),
        last_report=read(lambda: next(reversed(reports(git, main)), None), None) if main else None,
        open_directives=read(lambda: len(comms.open_directives(page)), 0) if page else 0,
        awaiting_review=tuple(read(lambda: _awaiting(git, main), [])) if main else (),
        awaiting_approval=read(lambda: tuple(approvals.waiting(home, page)), ()) if page else (),
        budget=read(lambda: spent_today(home, settings, now), None),
        taint=tuple(taint.now(home.places.var, now)),
        web=_web(home, is_running),
        mind=read(lambda: mind_lines(home.places.var), ()),
        duties=read(lambda: read_duties(git, now), ()),
        quiet=read(lambda: quiet(home, git, settings, now).words, ""),
        troubles=(),
        remote=home.remote,
    )
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    unread = [Trouble(at=at, text=text) for text in dict.fromkeys(problems)]
    return found._replace(troubles=(*unread, *_refusal(home), *reversed(state.troubles[-TROUBLES_SHOWN:])))


def _web(home: AgentPaths, is_running: bool) -> WebUse | None:
    used = read_web(home, is_running)
    return used if used.last or used.state != NOT_YET else None


def _untold(home: AgentPaths, state: WatcherFile, is_running: bool) -> Iterator[str]:
    """What the PM should know, though no part of the agent has told it."""
    if os.path.lexists(home.switch_file):
        yield "an upgrade is under way, or was cut short; 'minifram upgrade' ends one that was"
    if is_running and (differs := another_code(state)):
        yield differs
    if not is_running and state.since and state.phase != watcher_file.STOPPED:
        yield f"it was killed, or the machine went down, in phase {state.phase!r}; 'minifram up' starts it again"
    for name, path in (("data", home.data), ("state", home.state)):
        free = shutil.disk_usage(path).free if os.path.isdir(path) else DISK_FULL_BYTES
        if free < DISK_FULL_BYTES:
            yield f"the disk is full: {free >> 20} MiB free for {name} ({path})"


def spent_today(home: AgentPaths, settings: Settings, now: float) -> Spent:
    """What the ledger says about this UTC day; a day without a ledger cost nothing. Raises OSError."""
    # The ledger's own module counts, so that what the PM sees is what the model door enforces.
    from infra.keep.ledger.budget import Cost
    from infra.keep.ledger.labels import labels_of
    from infra.keep.ledger.ledger import lines_of_day, replay
    from infra.keep.ledger.prices import NANO

    day = time.strftime("%Y-%m-%d", time.gmtime(now))
    limits = settings.budget
    limit = Cost(round(limits.daily_usd * NANO), limits.daily_tokens)
    try:
        with opened_file(home.places.ledger) as file:
            lines = lines_of_day(file.fileno(), day)
    except FileNotFoundError:
        lines = []
    budget = replay(lines, day, limit)
    taken = budget.spent.plus(budget.reserved)
    return Spent(
        day=day,
        usd=round(budget.spent.nano_usd / NANO, 6),
        tokens=budget.spent.tokens,
        reserved_usd=round(budget.reserved.nano_usd / NANO, 6),
        daily_usd=limits.daily_usd,
        daily_tokens=limits.daily_tokens,
        calls=budget.calls,
        exhausted=taken.nano_usd >= limit.nano_usd or taken.tokens >= limit.tokens,
        labels={label: round(each.spent.nano_usd / NANO, 6) for label, each in sorted(labels_of(lines, day).items())},
    )


def activity_of(home: AgentPaths, state: WatcherFile) -> RunnerStatus | None:
    """What the runner says that it does; None when its words are missing or make no sense."""
    if problem_with_branch(state.branch):
        return None
    try:
        raw: Any = json.loads(Below(home.places.bot).tail(f"{state.branch}/minifram/{LIFE_FILE}", LIFE_BYTES))
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or raw.get("schema") != LIFE_SCHEMA:
        return None
    known = {key: raw[key] for key in RunnerStatus._fields if key in raw}
    sound = all(isinstance(value, int if key == "steps" else str) for key, value in known.items())
    return RunnerStatus(**known) if sound and {"doing", "since"} <= known.keys() else None


def _refusal(home: AgentPaths) -> list[Trouble]:
    try:
        with opened_file(f"{home.state}/{REFUSAL}") as file:
            why, told_at = json.loads(file.read(LIFE_BYTES)), os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError):
        return []
    return [Trouble(at=timestamp(told_at), text=f"not sealed, not started: {why}")]


def _prepared(state: WatcherFile) -> str:
    asked = state.request
    return asked.target if asked and asked.name == SignalName.BOOTSTRAP.value else state.branch or MAIN


def _awaiting(git: Git, main: str) -> list[Waiting]:
    found = review.unmerged(git, main)
    return [Waiting(name, commit, review.examination(git, main, commit).status) for name, commit in found]


def _main(git: Git) -> str:
    """The commit of main. Raises CommandError for no branch, and when the branch is there and its commit is not."""
    try:
        return review.main_commit(git)
    except (CommandError, GitError):
        named = git.raw("for-each-ref", "--format=%(objectname)", f"refs/heads/{MAIN}").decode().strip()
        if not named:
            raise
    put_back = f"git -C CLONE pack-objects --all --stdout </dev/null | git -C {git.directory} unpack-objects"
    raise not_found(
        f"main names commit {named[:12]}, which the repository does not hold or cannot read; put it back from a clone "
        f"that has it: {put_back}"
    )


def _subject(git: Git, commit: str) -> str:
    if not commit or resolve_commit(git, commit) is None:
        return ""
    return git("rev-list", "--no-commit-header", "--format=%s", "--max-count=1", commit)


def _differs(git: Git, commit: str, main: str) -> bool:
    return resolve_commit(git, commit) is not None and body_of(git, commit) != body_of(git, main)
