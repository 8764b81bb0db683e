"""What the watcher observes, as events: `Observer.next_event` waits, then makes one look after another."""

from __future__ import annotations

import os
import select
import time

from infra.keep import taint
from infra.keep.cut_logs import OLDER
from infra.keep.limits.watch import LimitWatch
from infra.keep.services import processes
from infra.keep.supervision import clones, memory
from infra.keep.supervision.act import Actor
from infra.keep.supervision.decide import events
from infra.keep.supervision.decide.events import Event
from infra.keep.supervision.inbox import Claimed, Inbox
from infra.keep.supervision.wake import Wake
from infra.keep.watcher_file import Level, Patience, Phase, Request, State
from infra.shared.branches import MAIN
from infra.shared.repository.git import Git
from infra.shared.signals import SignalName
from infra.shared.subreaper import become_subreaper

LOOK_AGAIN_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 3600.0
"""poll(2) takes a C int of milliseconds, and settings may ask for more."""
TRACE_SECONDS = 10.0
"""For git, to find the PM's word on main."""
BOOTING_POLL_SECONDS = (0.01, 0.05)
"""How often the log of a boot is looked at, at its beginning and later: most are short, and the PM waits for them."""
BOOTING_POLL_SHARE = 0.1
"""Between the two: such a part of the time that the boot has taken."""


class Observer:
    """Observes one agent."""

    def __init__(self, actor: Actor) -> None:
        self._actor, self._log = actor, actor.log
        zones = actor.zones
        self._timing, self._places = zones.timing, zones.places
        self._inbox = Inbox(zones.places.signals, zones.cell)
        self._limits = LimitWatch(zones.places, zones.cell, zones.timing.bounds_of(actor.settings), actor.log)
        self._wake = Wake()
        self._wake.on_stop_signals()
        self._stop_told = False
        self._claims = list[Claimed]()
        """Signal files that are not needed once their events were decided upon."""
        self._older_trace = (0, 0)
        """Inode and time of the web door's older trace, when it was looked at last."""
        self._next_check = actor.clock.now()

    def begin(self) -> State:
        """Remember, end what an earlier watcher left, start the doors; queues what comes before the first launch, and
        `Started`."""
        actor, timing, at = self._actor, self._timing, self._actor.now()
        patience = Patience(
            boot=timing.boot_seconds,
            grace=timing.grace_seconds,
            probation=timing.probation_seconds,
            make_way=timing.make_way_seconds,
            hops=timing.hops,
        )
        state, problem = memory.load(self._places.watcher_state, patience)
        actor.reports.take_up(state.untold)
        if problem:
            self._log.error("memory.unreadable", reason=problem)
            text = f"{problem}.\nPins, failures and the work in progress are forgotten. Known-good versions are kept."
            actor.reports.add(events.Tell("its state file could not be read", text), at)
        become_subreaper()
        try:
            self._inbox.make()
        except OSError as error:  # repeated at the next look, or before a launch
            self._log.error("directories.not_made", reason=str(error))
        self._wake.on_signals_in(self._places.signals, self._log)
        if strays := processes.end_strays(self._places):
            self._log.warning("descendants.ended", processes=strays)
        actor.preparation.remove_leftovers()
        actor.main.remove_stale_locks(at.wall)
        actor.services.tend(at.watch)
        self._log.info("watcher.started", pid=os.getpid())
        actor.queue += [*actor.main.look(), *self._signals(at.watch, at_once=True), events.Started()]
        return state

    def next_event(self, state: State) -> Event:
        """Wait for the next thing that happens, at most until the state's deadline."""
        queue = self._actor.queue
        if self._wake.stop_asked and not self._stop_told:  # before the first launch, which it would end at once
            self._stop_told = True
            return events.StopAsked()
        while not queue:
            if not self._actor.memory.is_behind:  # what they asked for was decided, and written down
                self._claims = [claimed for claimed in self._claims if not self._inbox.forget(claimed)]
            try:
                at = self._wait(state)
                self._look(state, at)
                # Git calls take a while: after all that is urgent.
                self._actor.reports.send(self._actor.now())
                self._actor.remember(state)
            except Exception:  # whatever it is, an agent without its watcher is worse
                self._log.exception("look.failed")
                time.sleep(LOOK_AGAIN_SECONDS)
        return queue.popleft()

    def _wait(self, state: State) -> float:
        """Until something may have happened; gives the time then."""
        actor, at = self._actor, self._actor.clock.now()
        poll_seconds = self._timing.poll_seconds
        if state.phase is Phase.BOOTING:
            first, last = BOOTING_POLL_SECONDS
            poll_seconds = min(max(first, (at - state.since.watch) * BOOTING_POLL_SHARE), last)
        # At the same moments as other looks, as far as can be: each time that it wakes costs.
        due = [at + poll_seconds, self._next_check]
        due += [self._limits.due] if state.phase is Phase.RUNNING else []
        due += [moment for moment in (state.deadline, actor.services.next_due()) if moment is not None]
        watched = (actor.services, actor.following, actor.preparation, actor.trials)
        poll = select.poll()
        for descriptor in (self._wake.fd, *(descriptor for each in watched for descriptor in each.pidfds())):
            poll.register(descriptor, select.POLLIN)
        seconds = min(max(0.0, min(due) - at), LONGEST_WAIT_SECONDS)
        poll.poll(seconds * 1000)
        self._wake.quiet()
        return actor.clock.now(seconds)

    def _look(self, state: State, at: float) -> None:
        """Queue what there is to see, in the order in which it is to be decided upon; what is seen twice is not told
        twice, so each is queued at once."""
        actor, queue = self._actor, self._actor.queue
        actor.services.tend(at)  # a door that is down explains a death
        # Noticed before the signals are read and reported after them: a runner that signalled and exited is never
        # taken for one that crashed.
        died = self._death(at)
        queue += [events.Observed("a door did not answer", words) for words in actor.services.news()]
        if self._wake.stop_asked and not self._stop_told:
            self._stop_told = True
            queue.append(events.StopAsked())
        queue += self._signals(at, at_once=bool(died))
        queue += actor.main.look()
        self._look_at_trace()
        queue += self._look_at_mind(state, at)
        queue += self._prepared(state)
        is_calm = state.phase in (Phase.RUNNING, Phase.WAITING) and not state.stopping and not state.request
        actor.trials.look(is_calm, at)
        serving = actor.following.runner if state.phase is Phase.RUNNING else None
        queue += [*actor.following.health(state, at), *self._limits.look(serving, at), *died]
        if at >= self._next_check:
            self._check(at)
        # After everything that could have met the deadline.
        if state.deadline is not None and at >= state.deadline:
            queue.append(events.TimeIsUp())
        if state.active.pid and not actor.following.runner and not died:
            how = "how is unknown: the watcher lost sight of it"
            queue.append(events.Died(state.active.boot_id, how, from_outside=True))
        waited_for = actor.services.pids() | actor.preparation.pids() | actor.trials.pids() | {state.active.pid}
        processes.reap_orphans(waited_for)

    def _death(self, at: float) -> list[Event]:
        died = self._actor.following.death(at)
        if died is None:
            return []
        outage = self._actor.outage_at(at, died.served)
        if not died.served:
            self._actor.launcher.doubt_environment()
        if outage:
            self._log.warning("outage", reason=outage)
        return [died._replace(outage=outage)]

    def _signals(self, at: float, at_once: bool) -> list[Event]:
        found = list[Event]()
        try:
            claims = self._inbox.take(time.time(), at, at_once)
        except OSError as error:
            self._log.error("signals.unreadable", reason=str(error))
            return []
        self._claims += claims
        for claimed in claims:
            why = claimed.refusal or (self._lacking(claimed.request) if claimed.request else "")
            if claimed.request and not why:
                self._log.info("signal.claimed", signal=claimed.request.name, target=claimed.request.target)
                found.append(events.Asked(claimed.request))
            else:
                self._log.warning("signal.refused", reason=why)
                found.append(events.Observed("a signal was refused", why, claimed.identity))
        return found

    def _lacking(self, request: Request) -> str:
        """Why this signal cannot succeed, so that it must not end the active runner; empty when it is worth a try."""
        if request.name != SignalName.BOOTSTRAP.value or request.target == MAIN:
            return ""
        try:
            return clones.lacking(self._actor.launcher.clones, request.target)
        except OSError as error:
            return f"the clone of {request.target} cannot be reached: {error}"

    def _look_at_trace(self) -> None:
        """When the web door's trace was cut short, that something was served is remembered before it is cut again."""
        try:
            status = os.lstat(f"{self._places.web_trace}{OLDER}")
        except OSError:
            return
        if self._older_trace != (status.st_ino, status.st_mtime_ns):
            taint.look(self._places.var, Git(self._places.remote).within(TRACE_SECONDS), time.time())
            self._older_trace = (status.st_ino, status.st_mtime_ns)

    def _look_at_mind(self, state: State, at: float) -> list[Event]:
        mind = self._actor.mind
        found: list[Event] = [events.Observed(*each) for each in mind.look(at)]
        # It may have been found while another version was on its way.
        is_wrong = bool(mind.drifted) and state.may_fail() and state.active.level is not Level.SAFE
        return [*found, events.MindDrifted(mind.drifted)] if mind.drifted != state.drifted or is_wrong else found

    def _prepared(self, state: State) -> list[Event]:
        """A step of a launch is over."""
        prepared = self._actor.preparation.look()
        if prepared is None:
            return []
        self._actor.sweep()  # what the preparation left behind
        if prepared.why_not:
            launch, why, guilty, transcript = prepared
            return [events.NotLaunched(launch.branch, why, guilty, transcript)]
        return self._actor.prepare(state)

    def _check(self, at: float) -> None:
        """Every 10 minutes (seed 001): is the runner in the process table? Of one that is not, its pidfd
        tells in the next look, behind the signals that it left."""
        self._next_check = at + self._timing.check_seconds
        self._actor.main.remove_stale_locks(time.time())
        runner = self._actor.following.runner
        alive = runner is not None and processes.is_alive(runner.pid)
        self._log.info("watcher.checked", runner=runner.pid if runner else None, alive=alive)
