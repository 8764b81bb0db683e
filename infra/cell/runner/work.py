"""The work loop on main: look at the page, work on its directives, sleep until main moves or the clock ticks.

No run starts on code that main has replaced, and with nothing open there is no model call. A door or a model that
fails is tried again later; work that does not end is begun three times (`tries`). Only handing over, or being asked to
end, ends this loop."""

from __future__ import annotations

import enum
import hashlib
import time

from infra.cell.cell import TENDING_SECONDS, Cell
from infra.cell.life.hop import catch_up, signal_main
from infra.cell.loop.loop import RunResult
from infra.cell.page import PageSeen
from infra.cell.run.patience import next_run_seconds
from infra.cell.run_states import StopReason
from infra.cell.runner import run
from infra.cell.runner.exploring import Exploring
from infra.cell.runner.idle import IdleTime
from infra.cell.runner.job import Job
from infra.cell.runner.job_run import JobRun
from infra.cell.runner.task_desk import TaskDesk
from infra.cell.runner.tries import WAITS, may_begin, next_try_at, pm_has_moved, stops_since_word
from infra.cell.runner.troubles import Troubles, await_model_door
from infra.cell.services.services import Services
from infra.cell.tools.bash import environment
from infra.cell.wakes import Wakes, next_tick
from infra.shared.branches import MAIN
from infra.shared.clock import timestamp
from infra.shared.comms import Directive
from infra.shared.exit_codes import Exit
from infra.shared.paths import SLEEPING
from infra.shared.repository.git import GitError
from infra.shared.repository.tip import TipBusy
from infra.shared.subreaper import become_subreaper

RETRY_SECONDS = 10.0
"""After a look that failed; a wake by the door may have been lost with it."""


class Next(enum.Enum):
    """What follows a look at the page."""

    SLEEP = "sleep"
    RETRY = "retry soon"
    LOOK_AGAIN = "look again"
    LEAVE = "leave"


def until_handed_over(context: Cell) -> Exit:
    """Work on main, with the agent's services beside it. Gives the exit code; raises Interrupted."""
    try:
        become_subreaper()
    except OSError as error:  # then the watcher alone ends what gets away
        context.log.warning("orphans.not_adopted", error=str(error))
    services = Services(
        context.checkout,
        context.boot.code,
        environment,
        context.log.info,
        lambda words: context.status.change(services=words),
    )
    services.start()
    try:
        return _until_handed_over(context._replace(services=services))
    finally:
        services.close()


def _until_handed_over(context: Cell) -> Exit:
    wakes = Wakes(context.boot.places.git_socket, context.log, context.interruption, context.heartbeat.beat)
    work = Work(context, wakes)
    idle = IdleTime(context, wakes)
    interval = context.boot.limits.work_seconds
    ticked, returned, tick = False, False, next_tick(time.time(), interval)
    while (then := work.look(ticked)) is not Next.LEAVE:
        if then is Next.SLEEP and idle.use(ticked):
            then = Next.LOOK_AGAIN
        elif then is Next.SLEEP and (then := work.explore()) is Next.LEAVE:
            break
        if then is not Next.LOOK_AGAIN:
            until = tick if then is Next.SLEEP else min(tick, time.time() + RETRY_SECONDS)
            context.status.show(SLEEPING, until=timestamp(until), waits=work.waits)
            run.end_what_is_left(context)
            moved = wakes.sleep(until)
            returned = wakes.has_returned()
            context.log.info("runner.woken", by="main moved" if moved else "door" if returned else "clock")
        now = time.time()
        ticked = not tick - interval <= now < tick  # before that, the clock was set back
        if returned:  # what failed for want of the doors is tried again now
            ticked, returned = True, False
            await_model_door(context)
        tick = next_tick(now, interval) if ticked else tick
    wakes.close()
    return Exit.OK


class Work:
    """What one look at the page has to know of the looks before it."""

    def __init__(self, context: Cell, wakes: Wakes) -> None:
        self._context = context
        self._wakes = wakes
        self._first_run = True
        self._put_off: str | None = None
        """The Directives that could not be finished: not tried again until the clock ticks or the PM moves main."""
        self._put_off_until = 0.0
        """And no tick before then, by the monotonic clock, begins them again."""
        self._resumes = False
        """The last run ended for want of a model, or was broken off: the next one goes on with it."""
        self._spoken = False
        """The PM has moved main since the last run began."""
        self.waits = ""
        """For what open directives wait."""
        self._main = context.state.memory.awaiting_at
        """Main at the last look, if only at that of an earlier runner."""
        self._just_done: set[str] = set()
        """Directives that the last look ticked."""
        self._failures = 0
        """Runs in a row that ended for want of a model."""
        self._troubles = Troubles(context)
        self._desk = TaskDesk(context)
        self._is_without_model = False
        """The last run ended for want of one, and the clock has not ticked since."""
        self._exploring = Exploring(context, self._desk)

    def look(self, ticked: bool) -> Next:
        """Look at main and its page, and work if there is work; `ticked` says that the clock woke us.

        Raises what it met when the clone itself is ruined: only the watcher can make another one."""
        self._context.interruption.check()
        self._context.heartbeat.beat("looking", TENDING_SECONDS)
        if ticked and time.monotonic() >= self._put_off_until:
            self._put_off = None
            self._is_without_model = False
            self._desk.ticked()
        self.waits = ""
        try:
            return self._look(ticked)
        except (GitError, TipBusy, OSError) as error:
            self._context.log.error("look.failed", error=str(error))
            self._context.status.change(last_error=str(error))
            if not self._context.is_sound():
                raise
            return Next.RETRY

    def _look(self, ticked: bool) -> Next:
        context = self._context
        sent = context.page.send()
        seen = context.page.look()
        self._wakes.seen(seen.commit)
        before, self._main = self._main, seen.commit
        if before and pm_has_moved(context.git, before, seen.commit):  # a directive may have waited for that
            self._put_off = None
            self._put_off_until = 0.0
            self._spoken = True
            self._is_without_model = False
            self._desk.ticked()
            self._go_on()
        if context.is_outdated(seen.commit):
            return self._make_way(seen)
        if not context.boot.instead_of:
            catch_up(context, seen.commit)
        self._troubles.look_at_services(seen)
        if seen.missing and sent:  # an unsent report puts them back as well
            title = f"{context.version()} put back into COMMS.md: {', '.join(seen.missing)}"
            sent = context.page.report(title, "Nothing else was changed. Write directives under '## Directives'.")
        if not self._failures:
            context.status.change(last_error="")
        tasks = self._desk.without_answers(self._tasks(seen))
        awaiting = context.state.memory.awaiting == _hash(seen.directives_text)
        if not tasks or awaiting or seen.directives_text == self._put_off:
            self.waits = context.status.status.last_error if tasks and self._put_off_until else ""
            return self._look_at_tasks(seen) or (Next.SLEEP if sent else Next.RETRY)
        if not self._resumes and not self._may_begin(seen):
            return self._look_at_tasks(seen) or (Next.SLEEP if sent else Next.RETRY)
        result = self._work_on(seen, tasks)
        if result.reason is StopReason.COMPLETED:
            self._just_done = {task.id for task in tasks}
        return self._after(result, seen)

    def _work_on(self, seen: PageSeen, tasks: list[Directive], job: Job | None = None) -> RunResult:
        context = self._context
        look_back = (self._first_run or self._resumes) and (job is None or job.task is not None)
        jobs = JobRun(context, job, self._desk) if job else None
        result = run.work_on(context, seen, tasks, self._wakes, look_back, jobs)
        self._first_run = self._resumes = self._spoken = False
        return result

    def _look_at_tasks(self, seen: PageSeen) -> Next | None:
        """Work on the next task of the inbox; None when there is none to work on. Raises GitError."""
        context = self._context
        if self._is_without_model or not self._works_on_tasks():
            return None
        tasks = self._desk.look(seen.open)
        if tasks is None:
            return None
        self._wakes.seen_mind(self._desk.commit)
        self._desk.tell_problems(tasks.problems)
        job = self._desk.next(tasks, seen.open, seen.commit, context.state.memory.awaiting)
        if job is None or job.task is None or job.id in context.page.ticks_underway():
            return None
        result = self._work_on(seen, job.directives, job)
        return self._after(result, seen, job)

    def explore(self) -> Next:
        """With nothing else to do: a run on what the agent would like to know, within its budget. Raises
        Interrupted."""
        context = self._context
        if self._is_without_model or self._put_off is not None or not self._works_on_tasks():
            return Next.SLEEP
        job = self._exploring.next_job()
        if job is None:
            return Next.SLEEP
        try:
            result = self._work_on(context.page.look(), job.directives, job)
        except (GitError, TipBusy, OSError) as error:
            context.log.error("exploration.failed", error=str(error))
            result = None
        if result is None or result.failure:  # the budget is used up, or there is no model
            self._exploring.wait(job, result and result.failure)
            return Next.LOOK_AGAIN  # a directive may have joined
        context.interruption.check()
        return Next.LEAVE if result.reason is StopReason.HANDED_OVER else Next.LOOK_AGAIN

    def _works_on_tasks(self) -> bool:
        boot = self._context.boot
        return boot.branch == MAIN and not boot.is_safe_mode

    def _go_on(self) -> None:
        """Work waits for no answer any more."""
        if self._context.state.memory.awaiting:
            self._context.state.change(awaiting="", awaiting_at="")

    def _may_begin(self, seen: PageSeen) -> bool:
        """Whether the runs that were stopped since the PM last spoke leave another try, now."""
        context = self._context
        tick = context.boot.limits.work_seconds
        stops = stops_since_word(context.git, seen.commit, context.state.memory.unsent)
        if self._spoken or may_begin(stops, tick, time.time()):
            return True
        at = next_try_at(stops, tick)
        self.waits = f"{stops.runs} runs were stopped ({stops.why}). "
        self.waits += WAITS if at is None else f"The next try is at {timestamp(at)}."
        context.log.info("run.put_off", stopped=stops.runs, why=stops.why, until=at and timestamp(at))
        return False

    def _tasks(self, seen: PageSeen) -> list[Directive]:
        """The directives to work on now."""
        underway = self._context.page.ticks_underway()
        tasks = [task for task in seen.open if task.id not in underway]
        just_done, self._just_done = self._just_done, set()
        if tasks and just_done.issuperset(task.id for task in tasks):
            # The same again at once would never end; at the tick it may be the PM who wants it once more.
            self._context.log.error("directives.not_ticked", directives=[task.id for task in tasks])
            self._put_off = seen.directives_text
        return tasks

    def _make_way(self, seen: PageSeen) -> Next:
        """Main's code is not what runs here: the watcher shall start what main holds now."""
        context = self._context
        context.log.info("code.outdated", running=context.boot.commit, main=seen.commit)
        return Next.LEAVE if signal_main(context, "main holds other code") else Next.RETRY

    def _after(self, result: RunResult, seen: PageSeen, job: Job | None = None) -> Next:
        context = self._context
        if result.failure and result.reason is StopReason.MODEL_UNAVAILABLE:
            failure = result.failure
            self._failures += 1
            self._resumes = self._is_without_model = True
            self._set_aside(seen, job)
            tick = context.boot.limits.work_seconds
            wait = next_run_seconds(failure.type, failure.retry_after_seconds, tick)
            self._put_off_until = time.monotonic() + wait if wait else 0.0
            context.status.change(last_error=str(failure))
            self._troubles.report_failure(failure, seen, job.directives if job else seen.open[:1], self._failures)
            return Next.SLEEP
        if result.reason is not StopReason.INTERRUPTED:
            self._failures = 0
            self._go_on()
        match result.reason:
            case StopReason.HANDED_OVER:
                return Next.LEAVE
            case StopReason.COMPLETED:
                return Next.LOOK_AGAIN
            case StopReason.INTERRUPTED:
                context.interruption.check()
                self._resumes = True  # or begins anew, if what was seen on main leaves nothing to resume
                return Next.LOOK_AGAIN
            case StopReason.AWAITING_APPROVAL:
                waits = job.task.digest if job and job.task else _hash(seen.directives_text)
                context.state.change(awaiting=waits, awaiting_at=seen.commit)
        self._set_aside(seen, job)
        return Next.LOOK_AGAIN if job else Next.SLEEP  # other tasks go on

    def _set_aside(self, seen: PageSeen, job: Job | None) -> None:
        """Not to be begun again until the clock ticks, or the PM has another word."""
        if job and job.task:
            self._desk.put_off(job.task)
        else:
            self._put_off = seen.directives_text


def _hash(directives: str) -> str:
    return hashlib.sha256(directives.encode(errors="surrogatepass")).hexdigest()
