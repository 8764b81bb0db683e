"""The state of an agent, running or not, as one value and on one screen.

Facts come from their owners: running or not from the lock, the rest of the supervision from `watcher.json`, what
the runner is doing from its own file (its own claim), money from the ledger, words from COMMS.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import msgspec

from host import decide
from host.egress import WebUse, read_web
from host.errors import CommandError
from host.home import AgentPaths
from host.repository import main_commit, open_repository, page_at
from host.review import examination, unmerged
from host.running import NO_BROWSER, PROCESS, another_code, browser_words, holder, keys_in_use, known_state
from host.screen import bad, counted, faint, good, one_line, since, strong
from host.talk import Asking, Report, all_reports, waiting
from host.trust import taint_of, words_of
from infra.cell.mind.duties import DUTIES, why_failed
from infra.cell.mind.history import History
from infra.cell.status import RunnerStatus
from infra.keep.ledger.budgets import Spent, spent_today
from infra.keep.mind.drift import read_drift
from infra.keep.settings.check import read_settings
from infra.keep.settings.models import model_words
from infra.keep.watcher_file import BootRecord, Level, Outcome, Phase, State, Strikes, Trouble
from infra.shared import comms
from infra.shared.branches import MAIN, problem_with_branch
from infra.shared.clock import timestamp
from infra.shared.conversation import TASK
from infra.shared.paths import LIFE_FILE
from infra.shared.repository.git import Git, GitError, resolve_commit
from infra.shared.repository.version import body_of
from infra.shared.safe_files import Below

_T = TypeVar("_T")

LIFE_BYTES = 16 * 1024
DUTIES_SECONDS = 15 * 86_400.0
BOOTS_SHOWN, TROUBLES_SHOWN = 3, 3


class Status(NamedTuple):
    agent: str
    running: bool
    pid: int
    phase: str
    since: str
    sandbox: str
    autonomy: str
    """Empty, like `model` and `sandbox`, when the settings cannot be read."""
    model: str
    is_led: bool
    """A runner lives: `branch`, `commit` and `level` are its. Else they are of the one that ran last."""
    branch: str
    commit: str
    level: str
    """What runs, or ran last: `branch`, `main`, `last good`, `safe mode`; empty before the first start."""
    main: str
    outdated: bool
    """Main has other code than what runs; the runner makes way for it when its run is done."""
    failures: int
    pins: tuple[Strikes, ...]
    """Versions that failed and are not started again for now, newest first."""
    life: RunnerStatus | None
    boots: tuple[BootRecord, ...]
    last_report: Report | None
    open_directives: int
    awaiting_review: tuple[dict[str, str], ...] | None
    """None when the repository cannot be read."""
    awaiting_approval: tuple[Asking, ...]
    budget: Spent | None
    taint: str
    """That the agent has read the web since the PM last trusted it; empty when it has not."""
    web: WebUse | None
    browser: str
    """How it is isolated, or that it is gone; empty when there is none."""
    mind: tuple[str, ...]
    """What of it is not as the PM wrote it, the PM's own large changes of who the agent is, duties that failed."""
    troubles: tuple[Trouble, ...]


def lines_of(found: Status, now: float) -> Iterator[str]:
    """The screen, for a terminal."""
    return (f"{faint(f'{name:<11}')}{text}" for name, text in _screen(found, now))


def read_status(home: AgentPaths, now: float) -> Status:
    """Raises the CommandError that keeps the repository from being opened; anything less is one of the troubles."""
    git, ledger = open_repository(home), home.places.ledger
    problems, none = list[str](), tuple[str, ...]()

    def read(what: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return what()
        except (OSError, ValueError, GitError, LookupError, CommandError) as error:
            problems.append(str(error))
            return otherwise

    settings = read(lambda: read_settings(home.settings), None)
    state = read(lambda: known_state(home), None) or State()
    pid = holder(home.places.watcher_lock)
    is_running = pid is not None
    is_led = is_running and bool(state.active.branch)
    main = read(lambda: main_commit(git), "")
    page = read(lambda: page_at(git, main), "") if main else ""
    last = state.boots[-1] if state.boots else None
    ran = state.runner or last
    branch, commit, level = (ran.branch, ran.commit, ran.level.value) if ran else ("", "", "")
    stands_in = level in decide.STAND_INS and decide.pin_of_main(state)
    outdated = bool(main and is_led and branch == MAIN and not stands_in)
    problems += untold(state, is_running)
    found = Status(
        agent=home.agent,
        running=is_running,
        pid=pid or 0,
        phase=state.phase.value if is_running else "down",
        since=timestamp(state.since.wall) if is_running or state.phase is Phase.STOPPED else "",
        sandbox=settings.sandbox if settings else "",
        autonomy=settings.autonomy if settings else "",
        model=model_words(settings.model, keys_in_use(home) if is_running else ()) if settings else "",
        is_led=is_led,
        branch=branch,
        commit=commit,
        level=level,
        main=main or state.main.commit,
        outdated=outdated and read(lambda: _differs(git, commit, main), False),
        failures=state.failures,
        pins=state.pins[::-1],
        life=activity_of(home, state) if is_running else None,
        boots=tuple(reversed(state.boots[-BOOTS_SHOWN:])),
        last_report=read(lambda: next(reversed(all_reports(git, main)), None), None) if main else None,
        open_directives=read(lambda: len(comms.open_directives(page)), 0) if page else 0,
        awaiting_review=read(lambda: _awaiting(git, main), None) if main else None,
        awaiting_approval=read(lambda: tuple(waiting(home, page)), ()) if page else (),
        budget=read(lambda: spent_today(ledger, settings.budget.daily_usd, now) if settings else None, None),
        taint=read(lambda: words_of(taint_of(home, git)), ""),
        web=read_web(home),
        browser=browser_words(home, settings) if settings else "",
        mind=read(lambda: _mind(home), none) + read(lambda: _failed_duties(home, now), none),
        troubles=(),
    )
    unread = [Trouble(at=timestamp(now), text=text) for text in dict.fromkeys(problems)]
    return found._replace(troubles=(*unread, *reversed(state.troubles[-TROUBLES_SHOWN:])))


def untold(state: State, is_running: bool) -> Iterator[str]:
    """What the PM should know, though no part of the agent has told it."""
    if is_running and (differs := another_code(state)):
        yield differs
    if not is_running and state.since.wall and state.phase is not Phase.STOPPED:
        yield f"it was killed, or the machine went down, in phase {state.phase.value!r}; 'minifram up' starts it again"
    if trouble := decide.trouble_with_main(state, is_running):
        yield trouble


def activity_of(home: AgentPaths, state: State) -> RunnerStatus | None:
    """What the runner says that it does; None when its words are missing or make no sense."""
    if problem_with_branch(state.active.branch):
        return None
    try:
        content = Below(home.places.bot).tail(f"{state.active.branch}/minifram/{LIFE_FILE}", LIFE_BYTES)
        return msgspec.json.decode(content, type=RunnerStatus)
    except (ValueError, RecursionError):
        return None


def _mind(home: AgentPaths) -> tuple[str, ...]:
    """Drift first, then the PM's change that changes much. Raises OSError, ValueError."""
    found = read_drift(home.places.var)
    return (*(f"drifted: {line}" for line in found.lines), *found.changes)


def _failed_duties(home: AgentPaths, now: float) -> tuple[str, ...]:
    """Standing duties of the mind, by the last weeks' events. Raises OSError."""
    history = History(timestamp(now - DUTIES_SECONDS)[:10])
    history.read(Below(home.places.events))
    failed = ((each.name, why_failed(history, each.name)) for each in DUTIES)
    return tuple(f"{name} failed: {why}" for name, why in failed if why)


def _awaiting(git: Git, main: str) -> tuple[dict[str, str], ...]:
    return tuple(
        {"name": name, "commit": commit, "verdict": examination(git, main, commit)[0]}
        for name, commit in unmerged(git, main)
    )


def _differs(git: Git, commit: str, main: str) -> bool:
    return resolve_commit(git, commit) is not None and body_of(git, commit) != body_of(git, main)


def _screen(found: Status, now: float) -> Iterator[tuple[str, str]]:
    about = f"{found.sandbox} sandbox{' (not isolated)' if found.sandbox == 'process' else ''}"
    about += f" · autonomy {found.autonomy} · {found.model} model"
    yield "agent", f"{strong(found.agent)} · {about if found.model else bad('its settings cannot be read')}"
    yield "state", _state(found, now)
    yield "version", _version(found)
    yield from _labelled("pinned", decide.shown(found.pins))
    if found.life:
        yield from _life(found.life, now)
    yield from _labelled("boots", map(_boot, found.boots))
    report = found.last_report
    yield "report", f"{one_line(report.time, 24)} {one_line(report.title, 120)}" if report else "none yet"
    yield "directives", f"{found.open_directives} open"
    awaiting = ", ".join(f"{one_line(each['name'], 60)} ({each['verdict']})" for each in found.awaiting_review or ())
    yield "review", bad("cannot be read") if found.awaiting_review is None else awaiting or "nothing awaits you"
    yield from _labelled("approval", (line for ask in found.awaiting_approval for line in _asked(ask)))
    if found.budget:
        yield "budget", _budget(found.budget)
    if found.taint:
        yield "taint", bad(f"{one_line(found.taint, 300)}; 'minifram trust'")
    if found.web:
        yield "web", found.web.words
    if found.browser:
        yield (
            "browser",
            bad(found.browser) if found.sandbox == PROCESS or found.browser == NO_BROWSER else found.browser,
        )
    yield from _labelled("mind", (bad(one_line(line, 300)) for line in found.mind))
    yield from _labelled("troubles", (f"{each.at} {one_line(each.text, 400)}" for each in found.troubles))


def _labelled(name: str, lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    return (("" if index else name, line) for index, line in enumerate(lines))


def _state(found: Status, now: float) -> str:
    state = good(found.phase) if found.phase == "running" else bad(found.phase)
    age = since(found.since, now)
    state += f" for {age}" if age else ""
    return state + (f" · watcher pid {found.pid or 'unknown'}" if found.running else " · 'minifram up' starts it")


def _version(found: Status) -> str:
    if not found.branch:
        return f"main @ {found.main[:12]} (never started)"
    newer = f" · main has other code ({found.main[:12]}), it is next" if found.outdated else ""
    version = f"{one_line(found.branch)} @ {found.commit[:12]}"
    if found.level == Level.SAFE:
        version = f"the code of this program, in the clone of {one_line(found.branch)}"
    stands_in = f" · {bad(found.level)}" if found.level in decide.STAND_INS else ""
    return f"{'' if found.is_led else 'last: '}{version}{stands_in}{newer}"


def _life(life: RunnerStatus, now: float) -> Iterator[tuple[str, str]]:
    age, until = since(life.since, now), f"until {one_line(life.until, 24)}" if life.until else ""
    doing = one_line(life.doing, 20) + (f" for {age}" if age else "")
    steps = counted(life.steps, "step") if life.steps else ""
    text = ", ".join(filter(None, (doing, steps, one_line(life.state, 20), until)))
    yield "runner", f"{one_line(life.about)} · {text}" if life.about else text
    if life.waits:
        yield "waits", bad(one_line(life.waits, 240))
    if life.services:
        yield "services", one_line(life.services, 240)
    if life.last_error:
        yield "last error", bad(one_line(life.last_error, 160))


def _boot(boot: BootRecord) -> str:
    outcome = bad(boot.outcome.value) if boot.outcome in (Outcome.FAILED, Outcome.DIED) else boot.outcome.value
    why = f" · {one_line(boot.detail, 80)}" if boot.detail else ""
    version = f"{one_line(boot.branch, 40)}@{boot.commit[:12]}"
    return f"{boot.started_at} {version} {outcome} · {one_line(boot.reason, 60)}{why}"


def _asked(ask: Asking) -> Iterator[str]:
    how = f"since {one_line(ask.at, 24)}: 'minifram approve {ask.id}' or 'minifram deny {ask.id} WHY'"
    yield f"{bad(f'{one_line(ask.tool, 40)} waits')} {how}"
    yield faint(one_line(ask.call, 120))


def _budget(spent: Spent) -> str:
    beside = [f"{label} ${usd:.2f}" for label, usd in spent.labels.items() if label != TASK]
    text = f"today ${spent.usd:.2f} of ${spent.daily_usd:.2f} · {spent.tokens:,} tokens"
    text += f" · {counted(spent.calls, 'call')}" + (f" · {bad('used up')}" if spent.exhausted else "")
    return text + (f" · of it {', '.join(beside)}" if beside else "")
