"""All that the watcher sees and does, behind two calls: `next_event` waits for what happens, `perform` acts.

Signals are looked for before a death is reported, so that a runner which signalled and left is never taken for
one that crashed."""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import psutil
import structlog
from msgspec.structs import replace

from infra.keep.services.services import DoorFiles, Services, outage
from infra.keep.supervision import checkouts, former_page, inbox, ladder, main_branch, memory, states
from infra.keep.supervision.absence import Absence
from infra.keep.supervision.bounds import Bounds
from infra.keep.supervision.decide import decide
from infra.keep.supervision.examining import Examining
from infra.keep.supervision.following import Following, brief
from infra.keep.supervision.health import Health
from infra.keep.supervision.launching import Candidate, Launcher, NotLaunched
from infra.keep.supervision.notes import Notes
from infra.keep.supervision.preparation import Preparation
from infra.keep.supervision.reports import Reports
from infra.keep.supervision.seal_watch import SealWatch
from infra.keep.supervision.shared_main import SharedMain
from infra.keep.supervision.stale_locks import StaleLocks
from infra.keep.supervision.states import Action, Event, Instant, Patience, Phase, State
from infra.keep.supervision.wake import Wake
from infra.keep.supervision.zones import Zones
from infra.shared import processes, report_titles
from infra.shared.active import Runner
from infra.shared.branches import MAIN
from infra.shared.control import longest_promise
from infra.shared.repository.git import GitError
from infra.shared.repository.page_text import PageBounds
from infra.shared.repository.tip import TipBusy
from infra.shared.settings import Settings, runner_limits
from infra.shared.signals import SignalName
from infra.shared.watcher_file import Request, WatcherFile

LOOK_AGAIN_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 3600.0
"""poll(2) takes a C int of milliseconds, and settings may ask for more."""
DOORS_GRACE_SECONDS = 3.0
"""The doors are our own and end at once; an orderly stop is not to wait for two graces."""
FLOOD_SECONDS = 3600.0
"""The PM hears of a flood of signals so often."""
RECOVERED_SECONDS = 2.0
"""An outage that comes and goes is no reason to launch more often than this."""
BOOTING_POLL_SECONDS = 0.05
"""While a boot is awaited its log is looked at so often: a boot is short, and the PM waits for it."""


def now() -> Instant:
    return Instant(time.monotonic(), time.time())


class _Queued(NamedTuple):
    event: Event
    claimed: inbox.Claimed | None = None
    """The signal file that it comes from."""


class World:
    """One agent's machine side."""

    def __init__(self, settings: Settings, zones: Zones, log: structlog.stdlib.BoundLogger):
        self._settings = settings
        self._zones = zones
        self._places = places = zones.places
        self._main = SharedMain(places, log)
        self._seal = SealWatch(zones, log)
        self._log = log
        self._queue: deque[_Queued] = deque()
        self._following = Following(places, log, zones.cell)
        self._inbox = inbox.Inbox(places.signals, zones.cell)
        self._next_flood = 0.0
        self._decided: list[inbox.Claimed] = []
        """Signals that were decided upon; their files are deleted once that is remembered."""
        self._reports = Reports(places, log, PageBounds(settings.comms.keep_reports, settings.comms.page_bytes))
        self._stale_locks = StaleLocks(places, log)
        self._notes = Notes(places, self._reports, log)
        self._unswept = ""
        self._door_files = DoorFiles(places, settings, zones.cell, zones.by_daemon)
        self._absence = Absence()
        self._next_check = 0.0
        self._stop_told = False
        self._launched = 0.0
        """Monotonic: when the last launch began."""
        self._out = ""
        """What was not there when the last runner died or could not be launched."""
        self._adopted = False
        self.wake = Wake(log)
        self.services = Services(zones.services, places, settings.limits.log_bytes, log)
        self._preparation = Preparation(places, zones.cell, log)
        self._launcher = Launcher(settings, zones, self.services, self._preparation)
        longest = longest_promise(runner_limits(settings))
        self._health = Health(places, self._following, longest, zones.pace, log)
        self._examining = Examining(settings, zones, self._preparation.is_fit, self._keep_pids, log)
        self._bounds = Bounds(self._launcher.clones, settings.limits, self._following, self._keep_pids, log)

    def begin(self) -> State:
        """Remember, look for a runner that outlived an earlier watcher, start the doors; queues `Started`."""
        file, problem = self._notes.read()
        at = now()
        self._launched = at.monotonic
        processes.become_subreaper()
        try:
            self._inbox.make()
            self._door_files.put()
            self._main.begin()
        except OSError as error:  # tried again at the next look, or before a launch
            self._log.error("directories.not_made", reason=str(error))
        self.wake.on_files_in(self._places.signals, inbox.NAMES, at.monotonic)
        limits = self._settings.limits
        patience = Patience(
            limits.boot_seconds, limits.grace_seconds, limits.probation_seconds, limits.hops, limits.make_way_seconds
        )
        state = memory.from_file(file, patience, at)
        if problem:
            state = self._begin_anew(state, problem, at)
        found = self._following.find(file)
        self._adopted = found is not None
        with self._zones.cell.acting():
            processes.let_go_after_restart(self._places)
            strays = processes.end_strays(self._places, found.boot_id if found else "")
        strays += self.services.end_orphans()
        if strays:
            self._log.warning("descendants.ended", processes=strays)
        self.services.tend(at.monotonic)
        # Its log may be gone by now; what was seen once stays seen.
        served = bool(found and (self._following.has_served(found) or _had_served(file, found)))
        self._log.info("watcher.started", pid=os.getpid(), found=found.pid if found else None, served=served)
        age = max(0.0, at.wall - found.started) if found else 0.0
        if self._following.was_launched(file, found):
            self._enqueue(states.LaunchFound(file.branch))
        # What was asked for while no watcher lived comes before the first launch.
        self._enqueue(*self._main.asked())
        self._take_signals()
        self._enqueue(states.Started(found, served, age))
        self._tell_of_the_former_page(at)
        self._next_check = at.monotonic + self._settings.intervals.check_seconds
        self._seal.due = at.monotonic + self._zones.proof_seconds
        return state

    def _tell_of_the_former_page(self, at: Instant) -> None:
        try:
            tell = former_page.look(self._places)
        except (GitError, OSError) as error:  # the next watcher looks again
            self._log.warning("page.not_looked_through", reason=str(error)[:1000])
            return
        if tell:
            self._reports.add(tell, at)

    def _begin_anew(self, state: State, problem: str, at: Instant) -> State:
        """With no memory: the PM is told, and versions that can live are known from where they are kept."""
        text = f"{problem}.\nPins, failures and what was under way are forgotten. Good versions are known again."
        self._reports.add(states.Tell(report_titles.watcher("its memory could not be read"), text), at)
        return replace(state, known_good=self._main.kept()[: ladder.KNOWN_GOOD_KEPT])

    def _enqueue(self, *events: Event, claimed: inbox.Claimed | None = None) -> None:
        self._queue.extend(_Queued(event, claimed) for event in events)

    def next_event(self, state: State) -> Event:
        """Wait for the next thing that happens, at most until the state's deadline."""
        if self.wake.stop_asked and not self._stop_told:  # before what it would end at once: the first launch
            self._stop_told = True
            return states.StopAsked()
        while not self._queue:
            try:
                self._wait(state)
                self._look(state)
            except Exception:  # whatever it is, an agent without its watcher is worse
                self._log.exception("look.failed")
                time.sleep(LOOK_AGAIN_SECONDS)
        event, claimed = self._queue.popleft()
        if claimed:
            self._decided.append(claimed)
        return event

    def remember(self, state: State, actions: Iterable[Action] = ()) -> None:
        """Keep what changed, durably; then the files of the signals that were decided upon are no longer needed.

        A disk that refuses is tried again at the next look."""
        if not self._notes.keep(state, actions, now()):
            return
        waiting = any(isinstance(each.event, states.RetryAsked) for each in self._queue)
        self._main.settle(state.known_good, retry_decided=not waiting)
        for claimed in self._decided:
            if not self._inbox.forget(claimed):
                self._log.error("signal.not_deleted", path=claimed.path)
        self._decided = []

    def perform(self, action: Action, state: State) -> None:
        """Carry out one action. What can go wrong comes back as an event or stands in the log; nothing escapes."""
        try:
            self._carry_out(action, state)
        except Exception as error:  # whatever it is, an agent without its watcher is worse
            self._log.exception("action.failed", action=type(action).__name__)
            if isinstance(action, states.Launch):
                self._enqueue(states.LaunchFailed(action.branch, brief(error)))
            elif isinstance(action, states.LookAtMain):
                self._enqueue(states.MainUnseen(brief(error)))
            elif isinstance(action, states.RollBack):
                self._enqueue(states.RollbackFailed(action.target, brief(error)))

    def _carry_out(self, action: Action, state: State) -> None:
        match action:
            case states.LookAtMain(reason):
                self._enqueue(self._main.answer(reason))
            case states.Launch():
                self._launch(action, state)
            case states.AskToEnd(runner):
                self._let_go()
                self._log.info("runner.asked_to_end", pid=runner.pid)
                self._following.ask_group(runner, signal.SIGTERM)
                self._following.ask_group(runner, signal.SIGCONT)  # one that is stopped hears of nothing else
            case states.EndNow(runner):
                self._log.warning("runner.ended", pid=runner.pid)
                self._following.ask_group(runner, signal.SIGKILL)
            case states.Sweep():
                self._sweep()
            case states.RollBack(target):
                self._roll_back(target, state)
            case states.Tell() if not self._queue:  # else whoever leads next comes first, the report after
                self._reports.send(now())
            case states.Leave():
                self._reports.send(now(), at_last=True)
                self.remember(state)
                self._examining.cancel()
                self.services.end(min(self._settings.limits.grace_seconds, DOORS_GRACE_SECONDS))
                self.wake.close()
                self._log.info("watcher.left")

    # Seeing.

    def _wait(self, state: State) -> None:
        at = time.monotonic()
        due = [
            at + self._poll_seconds(state),
            self._next_check,
            self._seal.due,
            self._stale_locks.due,
            at + LONGEST_WAIT_SECONDS,
        ]
        if state.phase in (Phase.BOOTING, Phase.RUNNING) and not self._examining.is_holding:
            due.append(self._health.due())
        if state.phase is Phase.RUNNING and not self._examining.is_holding:
            due.append(self._bounds.due())
        due += [moment for moment in (self._absence.due(state), self.services.next_due()) if moment is not None]
        poll = select.poll()
        watched = (self.services, self._following, self._preparation, self._examining)
        descriptors = [descriptor for each in watched for descriptor in each.pidfds()]
        for descriptor in (self.wake.fd, *descriptors, *self._health.fds(), *self.services.fds()):
            poll.register(descriptor, select.POLLIN)
        if not self._queue:
            poll.poll(max(0.0, min(due) - at) * 1000)
        self.wake.quiet()

    def _poll_seconds(self, state: State) -> float:
        return BOOTING_POLL_SECONDS if state.phase is Phase.BOOTING else self._settings.intervals.poll_seconds

    def _look(self, state: State) -> None:
        at = time.monotonic()
        late = self._absence.looks(at, self._poll_seconds(state))
        if late:
            self._log.warning("watcher.was_away", seconds=round(late, 3))
        self.services.tend(at)
        self._enqueue(*(states.Observed("a door did not answer", words) for words in self.services.news()))
        if self.wake.stop_asked and not self._stop_told:
            self._stop_told = True
            self._enqueue(states.StopAsked())
        runner = self._following.runner
        died = self._following.death()
        if died:
            self._out = self._outage(at, died.served)
            why = self._health.trouble or self._out
            died = died._replace(outage=bool(why))
            if not died.served:
                self._launcher.doubt_environment()
            if why:
                self._log.warning("outage", reason=why)
        self._take_signals()
        self.wake.on_files_in(self._places.signals, inbox.NAMES, at)
        self._enqueue(*self._main.look(), *self._preparation.look())
        self._was_held(at, self._examining.look(state, at))
        if not self._examining.is_holding:
            self._enqueue(*self._health.look(state, at), *self._bounds.look(state, at))
        if died:
            self._enqueue(died)
        unproved = self._seal.look(at, runner)
        if unproved and not runner:  # what is left of a runner, or a rehearsal, may be in the way
            self._enqueue(*self._preparation.break_off("it was broken off, as the seal could not be proved beside it"))
            self._examining.cancel()
            self._sweep()
            unproved = self._seal.broken()
        self._enqueue(*unproved)
        if at >= self._stale_locks.due:
            self._stale_locks.look(at, time.time())
        if at >= self._next_check:
            self._next_check = at + self._settings.intervals.check_seconds
            self._check()
        deadline = self._absence.due(state)
        if deadline is not None and at >= deadline:
            self._enqueue(states.TimeIsUp())
        elif self._has_recovered(state, at):
            self._enqueue(states.OutageOver(self._out))
            self._out = ""
        if (
            state.runner
            and not self._following.runner
            and not any(isinstance(each.event, states.Died) for each in self._queue)
        ):
            how = "how is unknown: the watcher lost sight of it"
            self._enqueue(states.Died(state.runner.boot_id, how, outside=True))
        processes.reap_orphans(self._keep_pids() | {runner.pid for runner in (state.runner,) if runner})
        self._reports.send(now())
        if self._notes.is_due:
            self.remember(state)

    def _has_recovered(self, state: State, at: float) -> bool:
        """The next launch waits for its turn, and what the last one failed of is over."""
        waits = state.phase is Phase.WAITING and at - state.since.monotonic >= RECOVERED_SECONDS
        return waits and bool(self._out) and not self._outage(at, served=True)

    def _outage(self, at: float, served: bool) -> str:
        """Why no version is to blame for what fails now. A boot may have waited for a door from its start on."""
        return outage(self.services, self._places, at, at if served else self._launched)

    def _take_signals(self) -> None:
        at = time.monotonic()
        try:
            claims = self._inbox.take(time.time(), at)
        except OSError as error:
            self._log.error("signals.unreadable", reason=str(error))
            return
        if self._inbox.is_flooded and at >= self._next_flood:
            self._next_flood = at + FLOOD_SECONDS
            self._log.warning("signals.flood")
            self._enqueue(states.Observed("a flood of signals", _FLOOD))
        for claimed in claims:
            lacking = self._lacking(claimed.request) if claimed.request else ""
            refusal = claimed.refusal or lacking
            if claimed.request and not refusal:
                self._log.info("signal.claimed", signal=claimed.request.name, target=claimed.request.target)
                self._enqueue(states.Asked(claimed.request), claimed=claimed)
                continue
            self._log.warning("signal.refused", reason=refusal)
            refused = states.SignalRefused(refusal, claimed.identity, may_leave=bool(lacking))
            self._enqueue(refused, claimed=claimed)

    def _lacking(self, request: Request) -> str:
        """Why nothing could come of this signal, so that it must not end who leads; empty when it is worth a try."""
        if request.name != SignalName.BOOTSTRAP.value or request.target == MAIN:
            return ""
        try:
            return checkouts.problem_with_clone(self._launcher.clones, request.target)
        except OSError as error:
            return f"the clone of {request.target} cannot be reached: {error}"

    def _check(self) -> None:
        """The check every 10 minutes (seed 001): is the runner that we count on there?"""
        missing = self._following.missing()
        if missing:
            self._enqueue(missing)
        runner = self._following.runner
        self._log.info("watcher.checked", runner=runner.pid if runner else None)

    # Doing.

    def _launch(self, action: states.Launch, state: State) -> None:
        at = now()
        self._launched = at.monotonic
        try:
            if self._unswept:
                raise OSError(f"what an earlier runner left behind is still there: {self._unswept}")
            broken = self._seal.broken()
            if broken:
                self._enqueue(*broken)
                raise OSError("the seal does not hold")
            self._door_files.put()
            candidate = self._launcher.candidate(action, state, at.wall)
            if candidate.rescued:
                self._log.warning("work.rescued", where=candidate.rescued)
                text = f"What the clone of main held and origin did not is saved {candidate.rescued}."
                self._reports.add(states.Tell(report_titles.watcher("work was rescued"), text), at)
            if candidate.first:
                self._enqueue(self._preparation.begin(candidate.first, action, candidate.runner))
                return
            self._spend(candidate, state, at)
            process, size = self._launcher.spawn(candidate)
            runner = self._following.start(process, candidate.runner, size)
        except (NotLaunched, OSError) as error:
            self._log.error("launch.failed", branch=action.branch, rung=action.level.value, reason=brief(error))
            guilty = error.guilty if isinstance(error, NotLaunched) else None
            self._out = self._outage(time.monotonic(), served=False)
            if self._out:
                guilty = None
            self._enqueue(states.LaunchFailed(action.branch, brief(error), guilty))
            return
        self._enqueue(states.Launched(runner, action.reason))
        self._log.info(
            "runner.launched",
            branch=runner.branch,
            commit=runner.commit,
            boot_id=runner.boot_id,
            pid=runner.pid,
            rung=runner.level.value,
            reason=action.reason,
        )

    def _spend(self, candidate: Candidate, state: State, at: Instant) -> None:
        """Note the attempt before it is made, with its boot id. Raises OSError."""
        spent, _ = decide(state, states.Launched(candidate.runner, candidate.boot.reason), at)
        # The request stays until the runner is known to live, so that a cut between the two repeats the launch.
        self._notes.write(replace(spent, request=state.request, handled=state.handled), at)

    def _keep_pids(self) -> frozenset[int]:
        """Of what is no runner's, and waited for elsewhere."""
        return self.services.pids() | self._preparation.pids() | self._examining.pids()

    def _let_go(self) -> None:
        """Who is to end can do so only when it runs."""
        at = time.monotonic()
        self._was_held(at, self._examining.let_go(at))

    def _was_held(self, at: float, seconds: float) -> None:
        if seconds:
            self._health.was_held(at, seconds)

    def _sweep(self) -> None:
        self._let_go()
        self._preparation.cancel()
        try:
            ended = processes.sweep(self.services.pids() | self._examining.pids(), self._zones.cell)
            if self._adopted:  # what its runner left behind was handed to init, not to us
                with self._zones.cell.acting():
                    ended += processes.end_strays(self._places, "")
                self._adopted = False
        except (TimeoutError, psutil.Error, OSError) as error:
            self._log.error("sweep.incomplete", reason=str(error))
            self._unswept = brief(error)
            return
        self._unswept = ""
        if ended:
            self._log.warning("descendants.ended", processes=ended)

    def _roll_back(self, target: str, state: State) -> None:
        signal_file = state.request.identity if state.request else ""
        autonomy, protected = self._settings.autonomy, self._settings.protected.files
        try:
            commit = main_branch.roll_back(self._places, target, autonomy, signal_file, protected, state.pardoned)
        except (GitError, TipBusy, LookupError, OSError) as error:
            self._log.error("rollback.failed", target=target, reason=brief(error))
            self._enqueue(states.RollbackFailed(target, brief(error)))
            return
        self._log.info("commit.rolled_back", target=target, commit=commit)
        self._enqueue(states.RolledBack(target, commit))


_FLOOD = (
    f"More comes into `.signal/` than is looked at. After {inbox.AT_ONCE} signals in a row one is taken each "
    f"{inbox.ONE_EACH_SECONDS:g} s, and the newest counts. Files that are no signals are removed."
)


def _had_served(file: WatcherFile, runner: Runner) -> bool:
    return any(boot.id == runner.boot_id and boot.outcome == "success" for boot in file.boots)
