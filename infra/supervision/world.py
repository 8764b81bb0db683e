"""All that the watcher sees and does, behind two calls: `next_event` waits for what happens, `perform` acts.

Signals are looked for before a death is reported, so that a runner which signalled and left is never taken for
one that crashed."""

from __future__ import annotations

import dataclasses
import os
import secrets
import select
import signal
import subprocess
import time
from collections import deque
from typing import NamedTuple

import structlog

from infra.admission.door_files import write_door_files
from infra.contract import boot_log, report_titles
from infra.contract.boot import Boot
from infra.contract.clock import timestamp
from infra.contract.places import Places
from infra.contract.settings import Settings, runner_limits
from infra.contract.watcher_file import WatcherFile
from infra.repository.git import GitError
from infra.repository.tip import TipBusy
from infra.supervision import cell_files, checkouts, inbox, main_branch, memory, processes, states
from infra.supervision.decide import decide
from infra.supervision.services import Services
from infra.supervision.states import Action, Event, Instant, Patience, Phase, Runner, State
from infra.supervision.wake import Wake

BOOTING_POLL_SECONDS = 0.05
"""While a boot is awaited its log is looked at so often: a boot is short, and the PM waits for it."""


def now() -> Instant:
    return Instant(time.monotonic(), time.time())


class _Tracked(NamedTuple):
    """What it takes to follow the runner that was started or found."""

    runner: Runner
    pidfd: int
    process: subprocess.Popen[bytes] | None
    """None for a runner of an earlier watcher: its exit status went to somebody else."""
    log_size: int
    """Size of its error log when it began."""


class World:
    """One agent's machine side."""

    def __init__(self, settings_path: str, settings: Settings, places: Places, log: structlog.stdlib.BoundLogger):
        self._settings = settings
        self._places = places
        self._log = log
        self._queue: deque[Event] = deque()
        self._tracked: _Tracked | None = None
        self._untold: deque[states.Tell] = deque()
        self._claimed: list[inbox.Claimed] = []
        self._remembered = WatcherFile()
        self._next_check = 0.0
        self._stop_told = False
        self._served = ""
        self._adopted = False
        self.wake = Wake(log)
        self.services = Services(settings_path, places, settings.limits.log_bytes, log)

    def begin(self) -> State:
        """Remember, look for a runner that outlived an earlier watcher, start the doors; queues `Started`."""
        file, problem = memory.load(self._places.watcher_state)
        if problem:
            self._log.error("memory.unreadable", reason=problem)
        at = now()
        os.makedirs(self._places.signals, exist_ok=True)
        write_door_files(self._places, self._settings)
        processes.become_subreaper()
        self.wake.on_files_in(self._places.signals)
        patience = Patience(self._settings.limits.boot_seconds, self._settings.limits.grace_seconds)
        state = memory.from_file(file, patience, at)
        found = self._find(file)
        self._adopted = found is not None
        strays = processes.end_strays(self._places, found.boot_id if found else "")
        if strays:
            self._log.warning("descendants.ended", processes=strays)
        self.services.tend(at.monotonic)
        served = bool(found and self._has_served(found))
        self._log.info("watcher.started", pid=os.getpid(), found=found.pid if found else None, served=served)
        self._queue.append(states.Started(found, served))
        self._next_check = at.monotonic + self._settings.intervals.check_seconds
        return state

    def next_event(self, state: State) -> Event:
        """Wait for the next thing that happens, at most until the state's deadline."""
        while not self._queue:
            self._wait(state)
            self._look(state)
        return self._queue.popleft()

    def remember(self, state: State) -> None:
        """Keep what changed, durably; then the claimed signal files are no longer needed.

        A disk that refuses is logged and tried again at the next event: supervision goes on meanwhile."""
        file = memory.to_file(state, now())
        if file != self._remembered:
            try:
                memory.save(self._places.watcher_state, file)
            except OSError as error:
                self._log.error("memory.not_saved", reason=str(error))
                return
            self._remembered = file
        for claimed in self._claimed:
            inbox.forget(claimed)
        self._claimed = []

    def perform(self, action: Action, state: State) -> None:
        """Carry out one action. What can go wrong comes back as an event or stands in the log; nothing escapes."""
        match action:
            case states.Launch(branch, reason):
                self._launch(branch, reason, state)
            case states.AskToEnd(runner):
                self._log.info("runner.asked_to_end", pid=runner.pid)
                processes.ask_group(runner.pid, signal.SIGTERM)
            case states.EndNow(runner):
                self._log.warning("runner.ended", pid=runner.pid)
                processes.ask_group(runner.pid, signal.SIGKILL)
            case states.Sweep():
                self._sweep()
            case states.RollBack(target):
                self._roll_back(target)
            case states.Tell():
                self._untold.append(action)
                self._tell()
            case states.Leave():
                self.services.end(self._settings.limits.grace_seconds)
                self.wake.close()
                self._log.info("watcher.left")

    # Seeing.

    def _wait(self, state: State) -> None:
        booting = state.phase is Phase.BOOTING
        at = time.monotonic()
        due = [
            at + (BOOTING_POLL_SECONDS if booting else self._settings.intervals.poll_seconds),
            self._next_check,
        ]
        due += [moment for moment in (state.deadline, self.services.next_due()) if moment is not None]
        poll = select.poll()
        for descriptor in (self.wake.fd, *self.services.pidfds()):
            poll.register(descriptor, select.POLLIN)
        if self._tracked:
            poll.register(self._tracked.pidfd, select.POLLIN)
        if not self._queue:
            poll.poll(max(0.0, min(due) - at) * 1000)
        self.wake.quiet()

    def _look(self, state: State) -> None:
        at = time.monotonic()
        self.services.tend(at)
        if self.wake.stop_asked and not self._stop_told:
            self._stop_told = True
            self._queue.append(states.StopAsked())
        runner = self._tracked.runner if self._tracked else None
        died = self._death()
        self._take_signals()
        # One that says SUCCESS and dies at once has still said it: its log is read after its death was seen.
        if runner and state.phase is Phase.BOOTING and self._served != runner.boot_id and self._has_served(runner):
            self._served = runner.boot_id
            self._log.info("boot.succeeded", branch=runner.branch, commit=runner.commit, boot_id=runner.boot_id)
            self._queue.append(states.Served(runner.boot_id))
        if died:
            self._queue.append(died)
        if at >= self._next_check:
            self._next_check = at + self._settings.intervals.check_seconds
            self._check(died)
        if state.deadline is not None and at >= state.deadline:
            self._queue.append(states.TimeIsUp())
        if self._untold:
            self._tell()

    def _take_signals(self) -> None:
        if self._claimed:  # not yet remembered: the same files would be claimed again
            return
        try:
            self._claimed = inbox.claim(self._places.signals)
        except OSError as error:
            self._log.error("signals.unreadable", reason=str(error))
            return
        for claimed in self._claimed:
            if claimed.request:
                self._log.info("signal.claimed", signal=claimed.request.name, target=claimed.request.target)
                self._queue.append(states.Asked(claimed.request))
            else:
                self._log.warning("signal.refused", reason=claimed.refusal)
                self._queue.append(states.SignalRefused(claimed.refusal))

    def _has_served(self, runner: Runner) -> bool:
        checkout = self._places.checkout(runner.branch)
        return boot_log.SUCCESS in cell_files.boot_words(checkout, runner.boot_id, runner.branch, runner.commit)

    def _death(self) -> states.Died | None:
        tracked = self._tracked
        if tracked is None or not processes.is_over(tracked.pidfd):
            return None
        how = "exit status unknown (it outlived a watcher)"
        if tracked.process:
            how = processes.how_it_ended(tracked.process.wait())
        os.close(tracked.pidfd)
        self._tracked = None
        runner = tracked.runner
        checkout = self._places.checkout(runner.branch)
        said = cell_files.boot_words(checkout, runner.boot_id, runner.branch, runner.commit).get(boot_log.FAILED)
        if said:
            how += f", it said: {said.details.get('reason', 'no reason')}"
        # An orderly end needs no explanation, and its log would only bury that of others.
        last_words = "" if how == processes.how_it_ended(0) else cell_files.last_words(checkout, tracked.log_size)
        self._log.info(
            "runner.died",
            branch=runner.branch,
            commit=runner.commit,
            boot_id=runner.boot_id,
            how=how,
            last_words=last_words,
        )
        return states.Died(runner.boot_id, how, last_words)

    def _check(self, died: states.Died | None) -> None:
        """The check every 10 minutes (seed 001): is the runner that we count on the process that is there?"""
        tracked = self._tracked
        if tracked and not died and not processes.is_alive(tracked.runner.pid, tracked.runner.started):
            self._log.warning("runner.missing", pid=tracked.runner.pid)
            self._queue.append(states.Died(tracked.runner.boot_id, "no such process at the periodic check"))
            os.close(tracked.pidfd)
            self._tracked = None
        self._log.info("watcher.checked", runner=tracked.runner.pid if tracked else None)

    def _find(self, file: WatcherFile) -> Runner | None:
        pid, started = file.runner_pid, file.runner_started
        if not processes.is_alive(pid, started):
            # Killed between starting a runner and noting its pid: its boot id was noted before.
            pid, started = processes.find_runner(file.boot_id) or (0, 0.0)
        if not pid:
            return None
        runner = Runner(file.boot_id, file.branch, file.commit, pid, started)
        try:
            self._tracked = _Tracked(runner, os.pidfd_open(pid), None, 0)
        except ProcessLookupError:
            return None
        return runner

    # Doing.

    def _launch(self, branch: str, reason: str, state: State) -> None:
        at = now()
        try:
            ready = checkouts.ready(self._places, branch, self._places.remote, at.wall)
            boot = self._boot(branch, ready.commit, reason)
            self._spend(boot, state, at)
            error_log, size = cell_files.open_error_log(self._places.checkout(branch), self._settings.limits.log_bytes)
            try:
                process = processes.spawn(boot, error_log)
            finally:
                os.close(error_log)
        except (checkouts.CheckoutError, OSError) as error:
            self._log.error("launch.failed", branch=branch, reason=str(error))
            self._queue.append(states.LaunchFailed(branch, str(error)))
            return
        started = processes.start_time(process.pid) or 0.0
        runner = Runner(boot.id, branch, ready.commit, process.pid, started)
        self._tracked = _Tracked(runner, os.pidfd_open(process.pid), process, size)
        self._queue.append(states.Launched(runner, reason))
        self._log.info(
            "runner.launched",
            branch=branch,
            commit=ready.commit,
            boot_id=boot.id,
            pid=process.pid,
            reason=reason,
        )
        if ready.rescued:
            text = f"The clone of main held work that was nowhere else; it is saved {ready.rescued}."
            self._untold.append(states.Tell(report_titles.watcher("work was rescued"), text))

    def _boot(self, branch: str, commit: str, reason: str) -> Boot:
        return Boot(
            id=secrets.token_hex(16),
            branch=branch,
            commit=commit,
            reason=reason,
            remote_url=self._places.remote,
            autonomy=self._settings.autonomy,
            places=self._places,
            limits=runner_limits(self._settings),
        )

    def _spend(self, boot: Boot, state: State, at: Instant) -> None:
        """Note the attempt before it is made, with its boot id: a crash in between must not hide it. Raises OSError."""
        runner = Runner(boot.id, boot.branch, boot.commit, 0, 0.0)
        spent, _ = decide(state, states.Launched(runner, boot.reason), at)
        # The request stays until the runner is known to live, so that a cut between the two repeats the launch.
        spent = dataclasses.replace(spent, request=state.request, handled=state.handled)
        self._remembered = memory.to_file(spent, at)
        memory.save(self._places.watcher_state, self._remembered)

    def _sweep(self) -> None:
        try:
            ended = processes.sweep(self.services.pids())
            if self._adopted:  # what its runner left behind was handed to init, not to us
                ended += processes.end_strays(self._places, "")
                self._adopted = False
        except TimeoutError as error:
            self._log.error("sweep.incomplete", reason=str(error))
            return
        if ended:
            self._log.warning("descendants.ended", processes=ended)

    def _roll_back(self, target: str) -> None:
        try:
            commit = main_branch.roll_back(self._places, target, self._settings.autonomy)
        except (GitError, TipBusy, LookupError, OSError) as error:
            self._log.error("rollback.failed", target=target, reason=str(error))
            self._queue.append(states.RollbackFailed(target, str(error)))
            return
        self._log.info("commit.rolled_back", target=target, commit=commit)
        self._queue.append(states.RolledBack(target, commit))

    def _tell(self) -> None:
        """Append what is untold to COMMS.md; what cannot be told now is told at a later look."""
        while self._untold:
            title, text = self._untold[0]
            try:
                main_branch.report(self._places, title, text, timestamp(time.time()))
            except (GitError, TipBusy, OSError) as error:
                self._log.error("report.failed", title=title, reason=str(error))
                return
            self._untold.popleft()
