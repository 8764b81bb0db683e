"""What the watcher does: `Actor.perform` carries out one action. A failure becomes an event or a log line."""

from __future__ import annotations

import signal

from infra.keep.active import Level, Runner
from infra.keep.supervision import main_branch
from infra.keep.supervision.decide import events
from infra.keep.supervision.decide.events import Action
from infra.keep.supervision.decide.state import State
from infra.keep.supervision.following import brief
from infra.keep.supervision.launching import Candidate, NotLaunched
from infra.keep.supervision.parts import Parts, now
from infra.shared import report_titles
from infra.shared.branches import MAIN
from infra.shared.repository.git import GitError
from infra.shared.repository.tip import TipBusy

DOORS_GRACE_SECONDS = 3.0
"""The doors are our own programs and exit at once, so an orderly stop need not wait for two grace periods."""
FALLBACK = "fallback:"
"""How the reason of a launch begins that follows the failure of a branch."""
PREPARATIONS = 3
"""The most preparations of one launch: install the environment, rehearse, and repeat one if the branch changed."""


class Actor:
    """Performs the actions for one agent."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._launch = events.Launch("", "")
        self._prepared = 0
        """How many preparations this launch has had."""
        self._candidate: Candidate | None = None
        """Ready to start."""

    def perform(self, action: Action, state: State) -> None:
        """Never raises."""
        try:
            self._carry_out(action, state)
        except Exception as error:  # whatever it is, an agent without its watcher is worse
            self._parts.log.exception("action.failed", action=type(action).__name__)
            match action:
                case events.Launch(branch) | events.StartRunner(Runner(branch=branch)):
                    self._parts.enqueue(events.LaunchFailed(branch, brief(error)))
                case events.LookAtMain():
                    self._parts.enqueue(events.LaunchFailed(MAIN, brief(error)))
                case events.RollBack(target):
                    self._parts.enqueue(events.RolledBack(target, problem=brief(error)))

    def _carry_out(self, action: Action, state: State) -> None:
        parts = self._parts
        match action:
            case events.LookAtMain(reason):
                parts.enqueue(parts.main.answer(reason))
            case events.Launch():
                parts.launched_at = now().monotonic
                self._launch, self._prepared = action, 0
                self._keep_mind(action, state)
                if parts.mind.drifted and action.level is not Level.SAFE:
                    parts.enqueue(events.MindDrifted(parts.mind.drifted))
                    parts.enqueue(events.LaunchFailed(action.branch, f"the mind has drifted: {parts.mind.drifted}"))
                    return
                self.prepare(state)
            case events.StartRunner(runner):
                self._start(runner)
            case events.End(runner, firmly=True):
                parts.log.warning("runner.ended", pid=runner.pid)
                parts.following.ask_group(runner, signal.SIGKILL)
            case events.End(runner):
                parts.let_go()
                parts.log.info("runner.asked_to_end", pid=runner.pid)
                parts.following.ask_group(runner, signal.SIGTERM)
                parts.following.ask_group(runner, signal.SIGCONT)  # a stopped process receives nothing else
            case events.Sweep():
                parts.sweep()
            case events.RollBack(target):
                self._roll_back(target, state)
            case events.Tell() if not parts.queue:  # else the next launch comes first, the report after
                parts.reports.send(now())
            case events.Leave():
                parts.reports.send(now(), at_last=True)
                parts.remember(state)
                parts.examining.cancel()
                parts.services.end(min(parts.zones.timing.grace_seconds, DOORS_GRACE_SECONDS))
                parts.wake.close()
                parts.log.info("watcher.left")

    def _keep_mind(self, launch: events.Launch, state: State) -> None:
        """Every way to another version comes through here, to a branch, to a main that was moved, and back."""
        last = state.boots[-1] if state.boots else None
        is_other = launch.level is Level.BRANCH or (last is not None and last.version != state.main.id)
        fell_back = launch.level in (Level.GOOD, Level.SAFE) or launch.reason.startswith(FALLBACK)
        what = f"{launch.branch}@{launch.commit[:12]}" if launch.commit else launch.branch
        found = self._parts.mind.before_launch(what, is_other and not fell_back, launch.reason if fell_back else "")
        self._parts.enqueue(*(events.Observed(*each) for each in found))

    def prepare(self, state: State) -> None:
        """Prepare the launch, or continue after a preparation. A preparation runs code in the cell that may have
        changed the clone, so everything is checked again. Ends with LaunchReady, Preparing or LaunchFailed."""
        parts, launch, at = self._parts, self._launch, now()
        try:
            self._need_order()
            candidate = parts.launcher.candidate(launch, state, at.wall)
            if candidate.rescued:
                parts.log.warning("work.rescued", where=candidate.rescued)
                text = f"Work in main's clone that origin did not have was saved {candidate.rescued}."
                parts.reports.add(events.Tell(report_titles.watcher("work was rescued"), text), at)
            if candidate.first:
                self._prepared += 1
                if self._prepared > PREPARATIONS:
                    raise OSError("its clone changes whenever it is prepared")
                parts.enqueue(parts.preparation.begin(candidate.first, launch, candidate.runner))
                return
            self._candidate = candidate
            parts.enqueue(events.LaunchReady(candidate.runner, launch.reason))
        except (NotLaunched, OSError) as error:
            self._not_launched(launch.branch, error)

    def _need_order(self) -> None:
        """Raises OSError when no process of the cell may be started now."""
        parts = self._parts
        if parts.unswept:
            raise OSError(f"processes of an earlier runner are still there: {parts.unswept}")
        why = parts.seal_problem()
        if why:
            parts.enqueue(events.SealFailed(why))
            raise OSError("the seal does not hold")
        parts.door_files.put()

    def _start(self, wanted: Runner) -> None:
        parts, candidate = self._parts, self._candidate
        try:
            if candidate is None or candidate.runner != wanted:
                raise OSError("it was prepared for another launch")
            if parts.memory.is_behind:
                raise OSError("the attempt could not be recorded")
            process, size = parts.launcher.spawn(candidate)
            runner = parts.following.start(process, wanted, size)
        except OSError as error:
            self._not_launched(wanted.branch, error)
            return
        parts.enqueue(events.Launched(runner))
        parts.log.info(
            "runner.launched",
            branch=runner.branch,
            commit=runner.commit,
            boot_id=runner.boot_id,
            pid=runner.pid,
            runner_level=runner.level.value,
            reason=candidate.boot.reason,
        )

    def _not_launched(self, branch: str, error: NotLaunched | OSError) -> None:
        parts = self._parts
        parts.log.error("launch.failed", branch=branch, runner_level=self._launch.level.value, reason=brief(error))
        parts.outage = parts.outage_at(now().monotonic, served=False)
        guilty = error.guilty if isinstance(error, NotLaunched) and not parts.outage else None
        parts.enqueue(events.LaunchFailed(branch, brief(error), guilty))

    def _roll_back(self, target: str, state: State) -> None:
        parts = self._parts
        signal_file = state.request.identity if state.request else ""
        autonomy, protected, taints = (
            parts.settings.autonomy,
            parts.settings.protected.files,
            parts.settings.web.taints,
        )
        try:
            commit = main_branch.roll_back(
                parts.places, target, autonomy, signal_file, protected, state.pardoned, taints
            )
        except (GitError, TipBusy, LookupError, OSError) as error:
            parts.log.error("rollback.failed", target=target, reason=brief(error))
            parts.enqueue(events.RolledBack(target, problem=brief(error)))
            return
        parts.log.info("commit.rolled_back", target=target, commit=commit)
        parts.enqueue(events.RolledBack(target, commit))
