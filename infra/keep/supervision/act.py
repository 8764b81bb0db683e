"""What the watcher does: `Actor.perform` carries out one action. A failure becomes an event or a log line."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Sequence

import psutil
import structlog

from infra.keep.examination.trials import Trials
from infra.keep.git_door import rollback
from infra.keep.git_door.setup import write_door_files
from infra.keep.mind.keeper import MindKeeper
from infra.keep.services import processes
from infra.keep.services.doors import Services, outage
from infra.keep.services.hearts import Heartbeat
from infra.keep.settings.schema import Settings
from infra.keep.supervision.clock import WatchClock
from infra.keep.supervision.clones import CloneError
from infra.keep.supervision.decide import events
from infra.keep.supervision.decide.events import Action, Event
from infra.keep.supervision.following import Following, brief
from infra.keep.supervision.launching import Candidate, CannotLaunch, Launcher
from infra.keep.supervision.main import SharedMain
from infra.keep.supervision.memory import WatcherMemory
from infra.keep.supervision.preparation import Preparation
from infra.keep.supervision.reports import Reports
from infra.keep.supervision.zones import Zones
from infra.keep.watcher_file import Instant, Level, Outcome, Runner, State
from infra.shared.repository.git import GitError
from infra.shared.repository.tip import TipBusy

DOORS_GRACE_SECONDS = 3.0
"""The doors are our own programs and exit at once, so an orderly stop need not wait for two grace periods."""
ANSWERS = (events.Ready, events.NotLaunched, events.RolledBack)
"""To a launch or a rollback: void with it."""


class Actor:
    """Performs the actions for one agent, with the parts of its watcher."""

    def __init__(self, settings: Settings, zones: Zones, log: structlog.stdlib.BoundLogger) -> None:
        self.settings, self.zones, self.places, self.log = settings, zones, zones.places, log
        self.queue: deque[Event] = deque()
        """What has happened and was not decided upon."""
        self.clock = WatchClock()
        self.services = Services(zones.services, zones.places, settings.limits.log_bytes, log)
        self.main = SharedMain(zones.places.remote, log)
        self.following = Following(zones.places, log, zones.cell)
        self.reports = Reports(zones.places, log)
        self.memory = WatcherMemory(zones.places.watcher_state, log)
        self.preparation = Preparation(zones.places, zones.cell, log, zones.also)
        self.launcher = Launcher(settings, zones, self.services, self.preparation)
        self.mind = MindKeeper(zones.places, zones.cell, settings.mind.on_drift, log)
        is_fit = self.preparation.is_fit
        self.trials = Trials(zones.places, zones.timing, zones.cell, zones.examiner, zones.scratch, is_fit, log)
        self._launch = events.Launch("", Level.MAIN, "")
        self._launched_at = self.clock.now()
        self._candidate: Candidate | None = None
        """Ready to start."""
        self._unswept = ""
        """Why processes that a runner left behind may still be there."""

    def now(self) -> Instant:
        return Instant(self.clock.now(), time.time())

    def outage_at(self, at: float, served: bool) -> str:
        """Why no version is to blame for a failure now. A boot may have waited for a door from its start on."""
        return outage(self.services, self.places, at, at if served else self._launched_at)

    def remember(self, state: State, event: Event | None = None, actions: Sequence[Action] = ()) -> None:
        """Keep what was decided about the event, durably, and the reports in it."""
        for action in actions:
            if isinstance(action, events.Tell):
                self.reports.add(action, self.now())
        # First: what the next watcher finds good is what the repository has. What was seen of it, but not decided upon,
        # is newer than the state.
        if not any(isinstance(each, events.MainSeen) for each in self.queue):
            self.main.settle(state.goods)
        if self.memory.keep(state, self.reports.untold) and isinstance(event, events.RetryAsked):
            self.main.settle(state.goods, retried=True)

    def perform(self, action: Action, state: State) -> None:
        """Never raises."""
        try:
            self._carry_out(action, state)
        except Exception as error:  # whatever it is, an agent without its watcher is worse
            self.log.exception("action.failed", action=type(action).__name__)
            match action:
                case events.Launch(branch) | events.Start(Runner(branch=branch)):
                    self.queue.append(events.NotLaunched(branch, brief(error)))
                case events.RollBack(target):
                    self.queue.append(events.RolledBack(target, problem=brief(error)))

    def _carry_out(self, action: Action, state: State) -> None:
        match action:
            case events.Launch():
                self._launch, self._launched_at = action, self.clock.now()
                self.sweep()
                self._keep_mind(action, state)
                if self.mind.drifted and action.level is not Level.SAFE:
                    why = f"the mind has drifted: {self.mind.drifted}"
                    self.queue += [events.MindDrifted(self.mind.drifted), events.NotLaunched(action.branch, why)]
                else:
                    self.queue += self.prepare(state)
            case events.Start(runner):
                self._start(runner)
            case events.End(runner, firmly=True):
                self.log.warning("runner.ended", pid=runner.pid)
                self.following.ask_group(runner, signal.SIGKILL)
            case events.End(runner):
                self.log.info("runner.asked_to_end", pid=runner.pid)
                self.following.ask_group(runner, signal.SIGTERM)
                self.following.ask_group(runner, signal.SIGCONT)  # a stopped process receives nothing else
            case events.RollBack(target):
                self.sweep()
                self._roll_back(target, state)
            case events.Tell() if not self.queue:  # else the next launch comes first, the report after
                self.reports.send(self.now())
            case events.Leave():
                self.sweep()
                self.reports.send(self.now(), at_last=True)
                self.remember(state)
                self.trials.cancel()
                self.services.end(min(self.zones.timing.grace_seconds, DOORS_GRACE_SECONDS))
                self.log.info("watcher.left")

    def _keep_mind(self, launch: events.Launch, state: State) -> None:
        """Every way to another version comes through here, to a branch, to a main that was moved, and back."""
        last = state.boots[-1] if state.boots else None
        is_other = launch.level is Level.BRANCH or (last is not None and last.version != state.main.id)
        branch_failed = last is not None and last.level is Level.BRANCH and last.outcome is not Outcome.LEFT
        fell_back = launch.level in (Level.GOOD, Level.SAFE) or branch_failed
        what = f"{launch.branch}@{launch.version.commit[:12]}" if launch.version.commit else launch.branch
        found = self.mind.before_launch(what, is_other and not fell_back, launch.reason if fell_back else "")
        self.queue += [events.Observed(*each) for each in found]

    def prepare(self, state: State) -> list[Event]:
        """Prepare the launch, or go on after a step of it: Ready, NotLaunched, or nothing while another step runs."""
        launch = self._launch
        try:
            self._need_order()
            candidate = self.launcher.candidate(launch, state)
            if candidate.first:
                self.preparation.begin(candidate.first, launch, candidate.runner)
                return []
            self._candidate = candidate
            return [events.Ready(candidate.runner, launch.reason)]
        except Exception as error:  # whatever it is: without an answer nothing would ever be launched
            return [self._not_launched(launch.branch, error)]

    def _need_order(self) -> None:
        """Raises OSError when no process of the cell may be started now."""
        if self._unswept:
            raise OSError(f"processes of an earlier runner are still there: {self._unswept}")
        if why := self.zones.proof():
            raise OSError(f"the seal does not hold ({why}); 'minifram restart' seals it again")
        write_door_files(self.places, self.settings, self.zones.cell, self.zones.by_daemon)

    def _start(self, wanted: Runner) -> None:
        candidate = self._candidate
        try:
            if candidate is None or candidate.runner.boot_id != wanted.boot_id:
                raise OSError("it was prepared for another launch")
            if self.memory.is_behind:
                raise OSError("the attempt could not be recorded")
            # After it was: a launch that is repeated sets no second clone aside.
            if aside := self.launcher.clone_ready(candidate, time.time()):
                self.log.info("clone.set_aside", path=aside)
            heart = Heartbeat(self.clock.now(), self.zones.timing.boot_seconds)
            try:
                process, size = self.launcher.spawn(candidate, heart)
            except OSError:
                heart.close()
                raise
            runner = self.following.start(process, wanted, size, heart)
        except (CloneError, OSError) as error:
            self.queue.append(self._not_launched(wanted.branch, error))
            return
        self.queue.append(events.Launched(runner.boot_id, runner.pid))
        more = {"runner_level": runner.level.value, "reason": candidate.boot.reason}
        self.log.info("runner.launched", **runner.facts, pid=runner.pid, **more)

    def _not_launched(self, branch: str, error: Exception) -> events.NotLaunched:
        self.log.error("launch.failed", branch=branch, runner_level=self._launch.level.value, reason=brief(error))
        guilty = error.guilty if isinstance(error, CannotLaunch) else None
        guilty = None if self.outage_at(self.clock.now(), served=False) else guilty
        return events.NotLaunched(branch, brief(error), guilty)

    def _roll_back(self, target: str, state: State) -> None:
        signal_file, settings = state.request.identity if state.request else "", self.settings
        files, taints = settings.protected.files, settings.web.taints
        try:
            commit = rollback.roll_back(self.places, target, settings.autonomy, signal_file, files, taints)
        except (GitError, TipBusy, LookupError, OSError) as error:
            self.log.error("rollback.failed", target=target, reason=brief(error))
            self.queue.append(events.RolledBack(target, problem=brief(error)))
            return
        self.log.info("commit.rolled_back", target=target, commit=commit)
        self.queue += [*self.main.look(), events.RolledBack(target, commit)]

    def sweep(self) -> None:
        """End every process that a runner or a preparation left behind, and drop a launch that is under way."""
        self.preparation.cancel()
        kept = [each for each in self.queue if not isinstance(each, ANSWERS)]
        self.queue.clear()
        self.queue += kept
        try:
            ended = processes.sweep(self.services.pids() | self.trials.pids(), self.zones.cell)
        except (TimeoutError, psutil.Error, OSError) as error:
            self.log.error("sweep.incomplete", reason=str(error))
            self._unswept = brief(error)
            return
        self._unswept = ""
        if ended:
            self.log.warning("descendants.ended", processes=ended)
