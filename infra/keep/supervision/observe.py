"""What the watcher observes, as events: `Observer.next_event` waits, then runs one check after another."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

from msgspec.structs import replace

from infra.keep import taint
from infra.keep.active import Level
from infra.keep.services import processes
from infra.keep.services.elapsed import next_beat
from infra.keep.supervision import checkouts, inbox, memory
from infra.keep.supervision.act import Actor
from infra.keep.supervision.decide import events
from infra.keep.supervision.decide.state import Patience, Phase, State
from infra.keep.supervision.decide.succession import KNOWN_GOOD_KEPT
from infra.keep.supervision.parts import Parts, now
from infra.keep.watcher_file import SignalRequest
from infra.shared import report_titles
from infra.shared.branches import MAIN
from infra.shared.repository.git import Git
from infra.shared.safe_files import OLDER
from infra.shared.signals import SignalName
from infra.shared.subreaper import become_subreaper

LOOK_AGAIN_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 3600.0
"""poll(2) takes a C int of milliseconds, and settings may ask for more."""
TRACE_SECONDS = 10.0
"""For git, to find the PM's word on main."""
FLOOD_SECONDS = 3600.0
"""How often a flood of signals is reported to the PM."""
RECOVERED_SECONDS = 2.0
"""An outage that comes and goes is no reason to launch more often than this."""
BOOTING_POLL_SECONDS = (0.01, 0.05)
"""How often the log of a boot is looked at, at its beginning and later: most are short, and the PM waits for them."""
BOOTING_POLL_SHARE = 0.1
"""Between the two: such a part of the time that the boot has taken."""


class Observer:
    """Observes one agent."""

    def __init__(self, parts: Parts, actor: Actor) -> None:
        self._parts = parts
        self._actor = actor
        self._died: events.Died | None = None
        """Noticed in this look, and not reported yet."""
        self._stop_told = False
        self._next_flood = 0.0
        self._next_check = time.monotonic() + parts.zones.timing.check_seconds
        self._next_proof = time.monotonic() + parts.zones.proof_seconds
        self._looks: tuple[Callable[[State, float], None], ...] = (
            # Time in which the watcher was away counts for nobody: known before anything is measured.
            self._look_at_the_clock,
            # A door that is down explains a death.
            self._look_at_doors,
            self._look_for_stop,
            # Noticed before the signals are read and reported after them: a runner that signalled and exited is never
            # taken for one that crashed.
            self._look_for_death,
            self._look_for_signals,
            self._look_at_main,
            self._look_at_preparation,
            # While an examination holds the cell, the runner is neither asked nor measured.
            self._look_at_examination,
            self._look_at_health,
            self._report_death,
            # It may sweep: after what a dead runner's processes could still tell.
            self._look_at_seal,
            self._look_at_locks,
            self._check,
            # After everything that could have met the deadline.
            self._look_at_deadline,
            self._look_for_lost_runner,
            # Git calls take a while: after all that is urgent.
            self._send_reports,
        )

    def begin(self) -> State:
        """Remember, look for a runner that outlived an earlier watcher, start the doors; queues `Started`."""
        parts, at = self._parts, now()
        file, problem = parts.memory.read()
        become_subreaper()
        try:
            parts.inbox.make()
            parts.door_files.put()
            parts.main.begin()
        except OSError as error:  # repeated at the next look, or before a launch
            parts.log.error("directories.not_made", reason=str(error))
        parts.wake.on_files_in(parts.places.signals, inbox.NAMES, at.monotonic)
        timing = parts.zones.timing
        patience = Patience(
            timing.boot_seconds, timing.grace_seconds, timing.probation_seconds, timing.hops, timing.make_way_seconds
        )
        state = memory.from_file(file, patience, at)
        if problem:
            text = f"{problem}.\nPins, failures and the work in progress are forgotten. Known-good versions are kept."
            parts.reports.add(events.Tell(report_titles.watcher("its state file could not be read"), text), at)
            state = replace(state, known_good=parts.main.kept()[:KNOWN_GOOD_KEPT])
        found = parts.following.find(file)
        parts.adopted = found is not None
        with parts.zones.cell.acting():
            processes.let_go_after_restart(parts.places)
            strays = processes.end_strays(parts.places, found.boot_id if found else "")
        strays += parts.services.end_orphans()
        if strays:
            parts.log.warning("descendants.ended", processes=strays)
        parts.preparation.remove_leftovers()
        parts.services.tend(at.monotonic)
        # Its log may be gone by now; what was seen once stays seen.
        had_served = any(boot.id == file.boot_id and boot.outcome == "success" for boot in file.boots)
        served = bool(found and (parts.following.has_served(found) or had_served))
        parts.log.info("watcher.started", pid=os.getpid(), found=found.pid if found else None, served=served)
        # What was asked for while no watcher lived comes before the first launch.
        parts.enqueue(*parts.main.asked())
        self._look_for_signals(state, at.monotonic)
        launched = file.branch if parts.following.was_launched(file, found) else ""
        age = max(0.0, at.wall - found.started) if found else 0.0
        parts.enqueue(events.Started(found, served, age, launched))
        return state

    def next_event(self, state: State) -> events.Event:
        """Wait for the next thing that happens, at most until the state's deadline."""
        parts = self._parts
        if parts.wake.stop_asked and not self._stop_told:  # before the first launch, which it would end at once
            self._stop_told = True
            return events.StopAsked()
        while not parts.queue:
            try:
                self._wait(state)
                at = time.monotonic()
                for look in self._looks:
                    look(state, at)
            except Exception:  # whatever it is, an agent without its watcher is worse
                parts.log.exception("look.failed")
                time.sleep(LOOK_AGAIN_SECONDS)
        event, claimed = parts.queue.popleft()
        if claimed:
            parts.decided.append(claimed)
        return event

    def _wait(self, state: State) -> None:
        parts, at = self._parts, time.monotonic()
        poll_seconds = self._poll_seconds(state, at)
        # At the same moments as the doors' questions, as far as can be: each time that it wakes costs.
        due = [next_beat(at, poll_seconds), self._next_check, self._next_proof, parts.stale_locks.due]
        if state.phase in (Phase.BOOTING, Phase.RUNNING) and not parts.examining.is_holding:
            due.append(parts.health.due())
        if state.phase is Phase.RUNNING and not parts.examining.is_holding:
            due.append(parts.limit_watch.due())
        due += [moment for moment in (parts.absence.due(state), parts.services.next_due()) if moment is not None]
        poll = select.poll()
        watched = (parts.services, parts.following, parts.preparation, parts.examining)
        descriptors = [descriptor for each in watched for descriptor in each.pidfds()]
        # Not where the doors answer: the next look is soon enough, and takes all answers at once.
        for descriptor in (parts.wake.fd, *descriptors, *parts.health.fds()):
            poll.register(descriptor, select.POLLIN)
        poll.poll(min(max(0.0, min(due) - at), LONGEST_WAIT_SECONDS) * 1000)
        parts.wake.quiet()

    def _poll_seconds(self, state: State, at: float) -> float:
        if state.phase is not Phase.BOOTING:
            return self._parts.zones.timing.poll_seconds
        first, last = BOOTING_POLL_SECONDS
        return min(max(first, (at - state.since.monotonic) * BOOTING_POLL_SHARE), last)

    def _look_at_the_clock(self, state: State, at: float) -> None:
        late = self._parts.absence.looks(at, self._poll_seconds(state, at))
        if late:
            self._parts.log.warning("watcher.was_away", seconds=round(late, 3))

    def _look_at_doors(self, state: State, at: float) -> None:
        self._parts.services.tend(at)
        self._parts.enqueue(*(events.Observed("a door did not answer", words) for words in self._parts.services.news()))

    def _look_for_stop(self, state: State, at: float) -> None:
        if self._parts.wake.stop_asked and not self._stop_told:
            self._stop_told = True
            self._parts.enqueue(events.StopAsked())

    def _look_for_death(self, state: State, at: float) -> None:
        parts = self._parts
        died = parts.following.death(at)
        if died:
            parts.outage = parts.outage_at(at, died.served)
            why = parts.health.trouble or parts.outage
            died = died._replace(outage=bool(why))
            if not died.served:
                parts.launcher.doubt_environment()
            if why:
                parts.log.warning("outage", reason=why)
        self._died = died

    def _report_death(self, state: State, at: float) -> None:
        if self._died:
            self._parts.enqueue(self._died)

    def _look_for_signals(self, state: State, at: float) -> None:
        parts = self._parts
        try:
            claims = parts.inbox.take(time.time(), at)
        except OSError as error:
            parts.log.error("signals.unreadable", reason=str(error))
            return
        if parts.inbox.is_flooded and at >= self._next_flood:
            self._next_flood = at + FLOOD_SECONDS
            parts.log.warning("signals.flood")
            parts.enqueue(events.Observed("a flood of signals", _FLOOD))
        for claimed in claims:
            lacking = self._lacking(claimed.request) if claimed.request else ""
            refusal = claimed.refusal or lacking
            if claimed.request and not refusal:
                parts.log.info("signal.claimed", signal=claimed.request.name, target=claimed.request.target)
                parts.enqueue(events.Asked(claimed.request), claimed=claimed)
                continue
            parts.log.warning("signal.refused", reason=refusal)
            refused = events.SignalRefused(refusal, claimed.identity, may_leave=bool(lacking))
            parts.enqueue(refused, claimed=claimed)
        parts.wake.on_files_in(parts.places.signals, inbox.NAMES, at)

    def _lacking(self, request: SignalRequest) -> str:
        """Why this signal cannot succeed, so that it must not end the active runner; empty when it is worth a try."""
        if request.name != SignalName.BOOTSTRAP.value or request.target == MAIN:
            return ""
        try:
            return checkouts.problem_with_clone(self._parts.launcher.clones, request.target)
        except OSError as error:
            return f"the clone of {request.target} cannot be reached: {error}"

    def _look_at_main(self, state: State, at: float) -> None:
        self._parts.enqueue(*self._parts.main.look())
        self._look_at_trace()
        self._look_at_mind(state, at)

    def _look_at_trace(self) -> None:
        """When the web door's trace was cut short, that something was served is remembered before it is cut again."""
        places, older = self._parts.places, self._parts.older_trace
        if os.path.lexists(f"{places.web_trace}{OLDER}") and not older.is_it():
            taint.look(places.var, Git(places.remote).within(TRACE_SECONDS), time.time())
            older.looked()

    def _look_at_mind(self, state: State, at: float) -> None:
        mind, runner = self._parts.mind, state.runner
        self._parts.enqueue(*(events.Observed(*found) for found in mind.look(at)))
        # It may have been found while another version was on its way.
        is_wrong = bool(mind.drifted) and runner is not None and runner.level is not Level.SAFE and state.may_fail()
        if mind.drifted != state.drifted or is_wrong:
            self._parts.enqueue(events.MindDrifted(mind.drifted))

    def _look_at_preparation(self, state: State, at: float) -> None:
        parts = self._parts
        prepared = parts.preparation.look()
        if prepared is None:
            return
        parts.sweep()  # what the preparation left behind
        if prepared.why_not:
            launch, why, guilty, transcript, commit = prepared
            parts.enqueue(events.LaunchFailed(launch.branch, why, guilty, transcript, commit))
        else:
            self._actor.prepare(state)

    def _look_at_examination(self, state: State, at: float) -> None:
        self._parts.health.was_held(at, self._parts.examining.look(state, at))

    def _look_at_health(self, state: State, at: float) -> None:
        if self._parts.examining.pids() | self._parts.preparation.pids():
            self._parts.limit_watch.excuse()
        if not self._parts.examining.is_holding:
            self._parts.enqueue(*self._parts.health.look(state, at), *self._parts.limit_watch.look(state, at))

    def _look_at_seal(self, state: State, at: float) -> None:
        """A runner may keep the proof from being made, so it fails first; with none, the seal itself is broken."""
        parts = self._parts
        if at < self._next_proof:
            return
        self._next_proof = at + parts.zones.proof_seconds
        why, runner = parts.zones.proof(), parts.following.runner
        if why and runner:
            parts.log.error("seal.unproved", reason=why, pid=runner.pid)
            parts.enqueue(events.SealFailed(why, runner.boot_id))
        elif why:  # processes that a runner left behind, or a rehearsal, may be the cause
            interrupted = parts.preparation.cancel()
            parts.examining.cancel()
            parts.sweep()
            if interrupted:
                why = "its preparation was interrupted, as the seal could not be verified meanwhile"
                parts.enqueue(events.LaunchFailed(interrupted.branch, why))
            why = parts.seal_problem()
            parts.enqueue(*([events.SealFailed(why)] if why else []))

    def _look_at_locks(self, state: State, at: float) -> None:
        if at >= self._parts.stale_locks.due:
            self._parts.stale_locks.look(at, time.time())

    def _check(self, state: State, at: float) -> None:
        """The check every 10 minutes (seed 001): is the runner in the process table?"""
        if at < self._next_check:
            return
        self._next_check = at + self._parts.zones.timing.check_seconds
        missing = self._parts.following.missing()
        self._parts.enqueue(*([missing] if missing else []))
        runner = self._parts.following.runner
        self._parts.log.info("watcher.checked", runner=runner.pid if runner else None)

    def _look_at_deadline(self, state: State, at: float) -> None:
        parts = self._parts
        deadline = parts.absence.due(state)
        waits = state.phase is Phase.WAITING and at - state.since.monotonic >= RECOVERED_SECONDS
        if deadline is not None and at >= deadline:
            parts.enqueue(events.TimeIsUp())
        elif waits and parts.outage and not parts.outage_at(at, served=True):
            parts.enqueue(events.OutageOver(parts.outage))
            parts.outage = ""

    def _look_for_lost_runner(self, state: State, at: float) -> None:
        parts = self._parts
        is_reported = any(isinstance(each.event, events.Died) for each in parts.queue)
        if state.runner and not parts.following.runner and not is_reported:
            how = "how is unknown: the watcher lost sight of it"
            parts.enqueue(events.Died(state.runner.boot_id, how, outside=True))
        processes.reap_orphans(parts.keep_pids() | {runner.pid for runner in (state.runner,) if runner})

    def _send_reports(self, state: State, at: float) -> None:
        self._parts.reports.send(now())
        if self._parts.memory.is_due:
            self._parts.remember(state)


_FLOOD = (
    f"More files arrive in `.signal/` than the watcher reads. After {inbox.AT_ONCE} signals in a row it takes one each "
    f"{inbox.ONE_EACH_SECONDS:g} s, and the newest counts. It removes files that are not signals."
)
